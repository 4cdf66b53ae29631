// What the split scanner asks of a code point: one of eight classes, from tables of Unicode 16.
#pragma once

#include <cstdint>

namespace rose {

// General categories joined as the o200k pattern uses them. The order is that of the generator.
enum class CharClass : uint8_t {
  kOther,    // everything else, unassigned code points included
  kUpper,    // Lu, Lt
  kLower,    // Ll
  kBoth,     // Lm, Lo: count as upper and as lower
  kMark,     // M
  kNumber,   // N
  kSpace,    // White_Space but CR and LF
  kNewline,  // CR, LF
};

extern const uint8_t kUnicodeTop[544];
extern const uint16_t kUnicodeMiddle[1440];
extern const uint64_t kUnicodeLeaves[1460];

// Class of a code point below 0x110000.
inline CharClass ClassOf(uint32_t code_point) {
  const uint32_t middle = kUnicodeTop[code_point >> 11] * 32u + ((code_point >> 6) & 31u);
  const uint32_t leaf = kUnicodeMiddle[middle] * 4u + ((code_point >> 4) & 3u);
  return static_cast<CharClass>((kUnicodeLeaves[leaf] >> ((code_point & 15u) * 4u)) & 15u);
}

}  // namespace rose
