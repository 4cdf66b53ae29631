// Merging that starts from characters instead of bytes, and only where tokens may join them.
//
// A piece is cut between two characters that no token can hold both of: no merge crosses there, so
// the parts may be merged apart. A part is then merged from the tokens of its characters if
//
//   1  each of them, merged on its own, becomes one token, by merges of ranks up to m(c);
//   2  no token begins or ends within a character of the part, unless it lies within a single one;
//   3  a token of several of the characters has a higher rank than m of each of them;
//
// and else from bytes.
//
// Proof that starting from characters gives the same ids. By 2, a merge lies within one character
// or joins whole ones; those within a character go as they go alone, and end with its token. It
// remains that both ways do the same merges of whole characters in the same order. Suppose they did
// so far, and the next is x when starting from characters, but y when starting from bytes. What is
// open to the bytes is open to the characters too, so x comes before y; and x is not open to the
// bytes, because it joins a character c that is not whole there. Then a merge within c is open, of
// a rank up to m(c), and y comes before it. So x has a rank up to m(c) as well, against 3.
#include <algorithm>
#include <limits>

#include "base/utf8.h"
#include "tokenizer/bpe_units.h"

namespace rose {
namespace {

// All code points whose UTF-8 begins with `prefix`, less than a character of two or three bytes.
std::pair<uint32_t, uint32_t> RangeOf(std::string_view prefix) {
  const auto lead = static_cast<uint8_t>(prefix[0]);
  uint32_t first = lead < 0xE0 ? (lead & 0x1Fu) << 6 : (lead & 0x0Fu) << 12;
  if (prefix.size() == 1) return {first, first + (lead < 0xE0 ? 64 : 4096)};
  first |= (static_cast<uint8_t>(prefix[1]) & 0x3Fu) << 6;
  return {first, first + 64};
}

struct Bmp {
  uint32_t code_point = 0;
  int length = 0;  // 0: no valid character of one to three bytes
};

Bmp BmpAt(std::string_view text, int64_t pos) {
  const auto byte = [&](int64_t at) -> uint32_t {
    return at < std::ssize(text) ? static_cast<uint8_t>(text[at]) : 0;
  };
  const uint32_t first = byte(pos), second = byte(pos + 1), third = byte(pos + 2);
  if (first < 0x80) return {first, 1};
  if ((second & 0xC0) != 0x80) return {};
  if (first >= 0xC2 && first < 0xE0) return {(first & 0x1F) << 6 | (second & 0x3F), 2};
  if (first < 0xE0 || first >= 0xF0 || (third & 0xC0) != 0x80) return {};
  const uint32_t c = (first & 0x0F) << 12 | (second & 0x3F) << 6 | (third & 0x3F);
  const bool is_surrogate = c >= 0xD800 && c < 0xE000;
  return {c, c < 0x800 || is_surrogate ? 0 : 3};
}

bool IsOfChars(std::string_view text) {
  int length = 1;
  for (int64_t pos = 0; pos < std::ssize(text) && length > 0; pos += length) {
    length = BmpAt(text, pos).length;
  }
  return length > 0;
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
  chars_.resize(kChars);
  std::vector<int32_t> last(kChars, -1);  // m
  for (int32_t id = 0; id < tokens_.ids(); ++id) {
    const std::string_view bytes = tokens_.Bytes(id);
    if (bytes.empty() || bytes.size() > 3) continue;
    const Bmp next = BmpAt(bytes, 0);
    if (next.length != std::ssize(bytes)) continue;
    last[next.code_point] = LastRankAlone(bytes);
    if (next.length == 1 || last[next.code_point] >= 0) chars_[next.code_point].id = id;
  }
  // Any token may go on after ASCII, so that most tokens need not be looked at.
  for (uint32_t c = 0; c < 0x80; ++c) chars_[c].open = ~uint64_t{0};
  const int64_t ranks = merges_ ? merges_->ranks() : tokens_.ids();
  for (int32_t rank = 0; rank < ranks; ++rank) {
    const std::string_view token = tokens_.Bytes(Joined(rank));
    if (!IsAscii(token)) LookAtToken(token, rank, last);
  }
}

// Opens the borders between characters that `token` holds, and enforces the third rule.
void Merger::LookAtToken(std::string_view token, int32_t rank, const std::vector<int32_t>& last) {
  if (!IsOfChars(token)) return LookAtCutToken(token);
  Bmp left = BmpAt(token, 0);
  for (int64_t pos = left.length; pos < std::ssize(token);) {
    const Bmp right = BmpAt(token, pos);
    CharEntry& entry = chars_[left.code_point];
    entry.open |= MaskOf(right.code_point);
    if (rank <= last[left.code_point]) entry.id = -1;
    if (rank <= last[right.code_point]) chars_[right.code_point].id = -1;
    pos += right.length;
    left = right;
  }
}

// The same for a token that is not all characters of chars_: what it begins or ends with may be
// part of one, and others may lie between.
void Merger::LookAtCutToken(std::string_view token) {
  int64_t pos = 0;
  while (pos < std::ssize(token) && (token[pos] & 0xC0) == 0x80) ++pos;
  std::string_view before = token.substr(0, pos);  // continuations, or a character, or nothing
  while (pos < std::ssize(token)) {
    const Bmp next = BmpAt(token, pos);
    uint64_t mask = 0;  // of what may stand at pos in a text
    if (next.length > 0) {
      mask = MaskOf(next.code_point);
    } else if (DecodeUtf8(token, pos).state == Utf8Char::State::kIncomplete &&
               static_cast<uint8_t>(token[pos]) < 0xF0) {
      const auto [first, end] = RangeOf(token.substr(pos));
      for (uint32_t c = first; c < end; ++c) mask |= MaskOf(c);
    }
    if (!before.empty() && mask != 0) OpenAfter(before, mask);
    before = token.substr(pos, next.length);
    pos += std::max(next.length, 1);
  }
}

// After every character that is `bytes` or ends with them, a token may go on that cuts a character.
void Merger::OpenAfter(std::string_view bytes, uint64_t mask) {
  const auto open = [&](CharEntry& entry) {
    entry.open |= mask;
    entry.cut |= mask;
  };
  if (const Bmp whole = BmpAt(bytes, 0); whole.length > 0) return open(chars_[whole.code_point]);
  std::string text;
  for (uint32_t c = static_cast<uint8_t>(bytes.back()) & 0x3Fu; c < kChars; c += 64) {
    if (c < 0x80 || (c >= 0xD800 && c < 0xE000)) continue;
    text.clear();
    AppendUtf8(text, c);
    if (text.ends_with(bytes)) open(chars_[c]);
  }
}

int64_t Merger::AppendChars(std::string_view piece, std::vector<int32_t>& ids) const {
  Units units;
  int64_t begin = 0;       // of the part
  bool from_chars = true;  // whether the part may be merged from characters
  CharEntry left;          // of the character before
  int64_t looked_up = 0;
  const auto end_part = [&](int64_t end) {
    const std::string_view part = piece.substr(begin, end - begin);
    if (!from_chars) {
      looked_up += AppendBytes(part, ids);
    } else if (units.count > 0) {
      looked_up += AppendPart(part, units, ids);
    }
    begin = end;
    units.count = 0;
    from_chars = true;
  };
  for (int64_t pos = 0; pos < std::ssize(piece);) {
    const Bmp next = BmpAt(piece, pos);
    if (next.length == 0) {
      // Of characters beyond chars_, and of invalid bytes, nothing is known: merged from bytes with
      // what is beside them.
      from_chars = false;
      left = {.open = ~uint64_t{0}, .cut = ~uint64_t{0}};
      do {
        ++pos;
      } while (pos < std::ssize(piece) && (piece[pos] & 0xC0) == 0x80);
      continue;
    }
    const CharEntry& entry = chars_[next.code_point];
    const uint64_t mask = MaskOf(next.code_point);
    if (pos > begin && (left.open & mask) == 0) end_part(pos);
    from_chars &= entry.id >= 0 && units.count < kMostUnits && (pos == begin || !(left.cut & mask));
    if (from_chars) {
      units.begin[units.count] = static_cast<uint16_t>(pos - begin);
      units.token[units.count++] = entry.id;
    }
    left = entry;
    pos += next.length;
  }
  end_part(std::ssize(piece));
  return looked_up;
}

// Merges a part from its characters, which are in `units`.
int64_t Merger::AppendPart(std::string_view part, Units& units, std::vector<int32_t>& ids) const {
  if (units.count > 1) {
    std::memcpy(units.bytes.data(), part.data(), part.size());
    units.begin[units.count] = static_cast<uint16_t>(part.size());
    for (int unit = 0; unit + 1 < units.count; ++unit) {
      units.keys[unit] = KeyOf(units, unit, unit + 1, unit + 2);
    }
  }
  return AppendUnits(units, ids);
}

}  // namespace rose
