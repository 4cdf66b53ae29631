// The character at a place of a text, quickly: how the split scanner and the merger read text.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/utf8.h"

namespace rose {

struct CharAtPlace {
  uint32_t code_point = 0;  // U+FFFD if not valid
  int length = 0;           // in bytes, >= 1; of what stands for one U+FFFD if not valid
  bool valid = false;
};

// From four readable bytes; not valid where DecodeUtf8 has to tell what is there.
[[gnu::always_inline]] inline CharAtPlace CharOfFour(const char* bytes) {
  const auto first = static_cast<uint8_t>(*bytes);
  if (first < 0x80) return {first, 1, true};
  uint32_t word;
  std::memcpy(&word, bytes, sizeof word);
  word = __builtin_bswap32(word);  // the first byte on top
  const uint32_t second = word >> 16 & 0x3F, third = word >> 8 & 0x3F, fourth = word & 0x3F;
  if (first < 0xE0) {
    const bool valid = first >= 0xC2 && (word & 0xC00000) == 0x800000;
    return {(first & 0x1Fu) << 6 | second, 2, valid};
  }
  if (first < 0xF0) {
    const uint32_t c = (first & 0x0Fu) << 12 | second << 6 | third;
    const bool is_surrogate = c - 0xD800 < 0x800;
    return {c, 3, (word & 0xC0C000) == 0x808000 && c >= 0x800 && !is_surrogate};
  }
  const uint32_t c = (first & 0x0Fu) << 18 | second << 12 | third << 6 | fourth;
  return {c, 4, (word & 0xC0C0C0) == 0x808080 && c - 0x10000 < 0x100000};
}

// The same as DecodeUtf8; four bytes from `pos` on must be readable, be they of the text or not.
[[gnu::always_inline]] inline CharAtPlace CharAt(std::string_view text, int64_t pos) {
  const CharAtPlace next = CharOfFour(text.data() + pos);
  if (next.valid && pos + next.length <= static_cast<int64_t>(text.size())) return next;
  const Utf8Char slow = DecodeUtf8(text, pos);
  return {slow.code_point, slow.length, slow.state == Utf8Char::State::kValid};
}

}  // namespace rose
