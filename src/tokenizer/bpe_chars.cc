// From which characters, instead of bytes, a merging may start.
#include <algorithm>
#include <limits>

#include "base/utf8.h"
#include "tokenizer/bpe.h"

namespace rose {

// The highest rank of the merges that make one token of `bytes`, a character of at most four,
// merged on their own; -1 if they do not become one.
int32_t Merger::LastRankAlone(std::string_view bytes) const {
  std::vector<std::string_view> parts;
  std::vector<int32_t> ids;
  for (size_t at = 0; at < bytes.size(); ++at) {
    parts.push_back(bytes.substr(at, 1));
    ids.push_back(byte_ids_[static_cast<uint8_t>(bytes[at])]);
  }
  int32_t last = -1;
  while (parts.size() > 1) {
    int32_t best = std::numeric_limits<int32_t>::max();
    size_t best_at = 0;
    for (size_t at = 0; at + 1 < parts.size(); ++at) {
      const std::string_view joined(parts[at].data(), parts[at].size() + parts[at + 1].size());
      const int32_t rank = Rank(joined, ids[at], ids[at + 1]);
      if (rank >= 0 && rank < best) {
        best = rank;
        best_at = at;
      }
    }
    if (best == std::numeric_limits<int32_t>::max()) return -1;
    last = std::max(last, best);
    ids[best_at] = Joined(best);
    parts[best_at] = {parts[best_at].data(), parts[best_at].size() + parts[best_at + 1].size()};
    ids.erase(ids.begin() + static_cast<int64_t>(best_at) + 1);
    parts.erase(parts.begin() + static_cast<int64_t>(best_at) + 1);
  }
  return last;
}

// Fills chars_ with the characters from which the merging of a piece may start, if it has no
// others:
//
//   1  merged on its own, the character becomes one token, by merges of ranks up to m(c);
//   2  no token begins or ends within such characters, unless it lies within a single one;
//   3  a token of several such characters has a higher rank than m of each of them.
//
// Proof that the ids are those of a merging that starts from bytes. By 2, a merge lies within one
// character or joins whole ones; those within a character go as they go alone, and end with its
// token. It remains that both ways do the same merges of whole characters in the same order.
// Suppose they did so far, and the next is x when starting from characters, but y when starting
// from bytes. What is open to the bytes is open to the characters too, so x comes before y; and x
// is not open to the bytes, because it joins a character c that is not whole there. Then a merge
// within c is open, of a rank up to m(c), and y comes before it. So x has a rank up to m(c) as
// well, against 3.
void Merger::FindWholeChars() {
  chars_.assign(kChars, -1);
  std::vector<int32_t> last(kChars, -1);  // m
  for (int32_t id = 0; id < tokens_.ids(); ++id) {
    const std::string_view bytes = tokens_.Bytes(id);
    if (bytes.empty() || bytes.size() > 3) continue;
    const Utf8Char next = DecodeUtf8(bytes, 0);
    if (next.state != Utf8Char::State::kValid || next.length != std::ssize(bytes)) continue;
    last[next.code_point] = LastRankAlone(bytes);
    if (bytes.size() == 1 || last[next.code_point] >= 0) chars_[next.code_point] = id;
  }
  const int64_t ranks = merges_ ? merges_->ranks() : tokens_.ids();
  for (int32_t rank = 0; rank < ranks; ++rank) {
    DropUnsafeChars(tokens_.Bytes(Joined(rank)), rank, last);
  }
}

// Takes characters out of chars_ until `token` breaks none of the rules.
void Merger::DropUnsafeChars(std::string_view token, int32_t rank,
                             const std::vector<int32_t>& last) {
  const auto size = static_cast<int64_t>(token.size());
  int64_t pos = 0;
  while (pos < size && (token[pos] & 0xC0) == 0x80) ++pos;
  const bool cut_begin = pos > 0;
  std::vector<uint32_t> whole;
  while (pos < size) {
    const Utf8Char next = DecodeUtf8(token, pos);
    if (next.state == Utf8Char::State::kInvalid) return;  // never in a text of whole characters
    if (next.state == Utf8Char::State::kIncomplete) break;
    whole.push_back(next.code_point);
    pos += next.length;
  }
  const std::string_view tail = token.substr(pos);
  const bool cut_end = !tail.empty();
  if (cut_end && static_cast<uint8_t>(tail[0]) >= 0xF0) return;  // chars_ has none of four bytes
  // A character that is not in chars_ anyway makes the token harmless.
  if (std::ranges::any_of(whole, [&](uint32_t c) { return c >= kChars || chars_[c] < 0; })) return;
  if ((cut_begin || cut_end) && !whole.empty()) {
    chars_[whole[0]] = -1;
  } else if (cut_begin && cut_end) {
    // Ends in any of the characters that begin like its tail.
    const auto lead = static_cast<uint8_t>(tail[0]);
    const int rest = lead < 0xE0 ? 6 : 12;  // bits that the lead does not say
    int64_t first = (lead & (lead < 0xE0 ? 0x1F : 0x0F)) << rest, count = int64_t{1} << rest;
    if (tail.size() == 2) {
      first |= (tail[1] & 0x3F) << 6;
      count = 64;
    }
    std::fill_n(chars_.begin() + first, count, -1);
  } else if (!cut_begin && !cut_end && whole.size() > 1) {
    for (const uint32_t c : whole) {
      if (rank <= last[c]) chars_[c] = -1;
    }
  }
}

}  // namespace rose
