// What is known of characters when a vocabulary is loaded, and why merging may start from them.
//
// A piece is cut between two characters that no token can hold both of: no merge crosses there, so
// the parts may be merged apart. In a part, a character c may be a unit from the start if
//
//   1  merged on its own, it becomes one token, by merges of ranks up to m(c);
//   2  every token that the part holds, and that has bytes of c and bytes beside it, has a rank
//      above m(c);
//
// and else it is spelled in bytes.
//
// Proof that this gives the same ids as starting from bytes alone. Call the characters that are
// units good. As long as a good one is not whole, and only merges within it have touched it, the
// next of those is open and has a rank up to m(c). By 2 a merge that joins bytes of c with others
// comes after it. So the good become whole as they do alone, and all other merges have them whole
// or not at all. It remains that both ways do the others in the same order. Suppose they did so
// far, and the next is x when starting from units, but y when starting from bytes. What is open to
// the bytes is open to the units too, so x comes before y; and x is not open to the bytes, because
// it joins a good c that is not whole there. Then a merge within c is open, of a rank up to m(c),
// and y comes before it. So x has a rank up to m(c) as well, against 2.
#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/utf8.h"
#include "tokenizer/bpe_units.h"

namespace rose {
namespace {

// Code points from `first` to before `end`.
struct CodePoints {
  uint32_t first = 0, end = 0;
};

// All whose UTF-8 begins with `prefix`, which is less than a character.
CodePoints BeginningWith(std::string_view prefix) {
  const auto lead = static_cast<uint8_t>(prefix[0]);
  const int length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  uint32_t known = lead & 0x7Fu >> length;
  for (const char c : prefix.substr(1)) known = known << 6 | (static_cast<uint8_t>(c) & 0x3Fu);
  const int open_bits = 6 * (length - static_cast<int>(prefix.size()));
  const uint32_t lowest = length == 2 ? 0x80 : length == 3 ? 0x800 : 0x10000;
  return {std::max(known << open_bits, lowest), std::min((known + 1) << open_bits, 0x110000u)};
}

}  // namespace

// The highest rank of the merges that make one token of `bytes`, a character, merged on their own;
// -1 if they do not become one.
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

void Merger::LookAtChars() {
  chars_.resize(kBmp);                  // for now, one for each
  std::vector<int32_t> last(kBmp, -1);  // m
  for (int32_t id = 0; id < tokens_.ids(); ++id) {
    const std::string_view bytes = tokens_.Bytes(id);
    if (bytes.empty() || bytes.size() > 3) continue;
    const Utf8Char next = DecodeUtf8(bytes, 0);
    if (next.state != Utf8Char::State::kValid || next.length != std::ssize(bytes)) continue;
    last[next.code_point] = LastRankAlone(bytes);
    if (next.length == 1 || last[next.code_point] >= 0) chars_[next.code_point].id = id;
  }
  // Any token may go on after ASCII, so that most tokens need not be looked at.
  for (uint32_t c = 0; c < 0x80; ++c) chars_[c].open = ~uint64_t{0};
  const int64_t ranks = merges_ ? merges_->ranks() : tokens_.ids();
  for (int32_t rank = 0; rank < ranks; ++rank) {
    const std::string_view token = tokens_.Bytes(Joined(rank));
    const bool is_ascii = std::ranges::all_of(token, [](char c) { return (c & 0x80) == 0; });
    if (!is_ascii) LookAtToken(token, rank, last);
  }
  // Most characters share the entry of those that have nothing, so that the others are near each
  // other.
  char_places_.assign(kBmp, 0);
  std::vector<CharEntry> all(1);
  all.swap(chars_);
  for (uint32_t c = 0; c < kBmp; ++c) {
    if (all[c] == CharEntry{}) continue;
    char_places_[c] = static_cast<uint16_t>(chars_.size());
    chars_.push_back(all[c]);
  }
  ROSE_CHECK_LE(chars_.size(), 1u << 16);
}

// Opens the borders between characters that `token` holds. It may begin and end within one.
void Merger::LookAtToken(std::string_view token, int32_t rank, const std::vector<int32_t>& last) {
  int64_t pos = 0;
  while (pos < std::ssize(token) && (token[pos] & 0xC0) == 0x80) ++pos;
  std::string_view before = token.substr(0, pos);  // a character, or what one ends with
  for (int length; pos < std::ssize(token); pos += length) {
    const Utf8Char next = DecodeUtf8(token, pos);
    length = next.length;
    const std::string_view here = token.substr(pos, length);
    if (next.state == Utf8Char::State::kInvalid) {
      before = {};
      continue;
    }
    if (!before.empty()) {
      const bool is_whole = next.state == Utf8Char::State::kValid;
      const CodePoints right =
          is_whole ? CodePoints{next.code_point, next.code_point + 1} : BeginningWith(here);
      NextChars next_chars;
      for (uint32_t c = right.first; c < right.end; ++c) {
        next_chars.all.Add(c);
        if (c < kBmp && rank <= last[c]) next_chars.late.Add(c);
      }
      OpenAfter(before, next_chars, rank, last);
    }
    before = here;
  }
}

// A token of `rank` may go on with one of `next` after every character that is `before` or ends
// with it.
void Merger::OpenAfter(std::string_view before, const NextChars& next, int32_t rank,
                       const std::vector<int32_t>& last) {
  const bool is_end = (before[0] & 0xC0) == 0x80;
  const uint32_t left = is_end ? kBmp : DecodeUtf8(before, 0).code_point;
  if (left < kBmp) {
    CharEntry& entry = chars_[left];
    entry.open |= next.all.chars;
    entry.spell_next |= next.late.chars;
    if (rank <= last[left]) entry.spell_this |= next.all.chars;
    return;
  }
  EndEntry& entry = ends_[static_cast<uint8_t>(before.back())];
  entry.open |= next.all.blocks;
  entry.spell_next |= next.late.blocks;
  if (!is_end) return;
  uint32_t known = 0;  // the bits that the last bytes write
  for (const char c : before) known = known << 6 | (static_cast<uint8_t>(c) & 0x3Fu);
  for (uint32_t c = known; c < kBmp; c += 1u << 6 * before.size()) {
    if (rank <= last[c]) chars_[c].spell_this |= next.all.chars;
  }
}

}  // namespace rose
