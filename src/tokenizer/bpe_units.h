// A short piece being merged: what bpe.cc and bpe_chars.cc share.
#pragma once

#include "tokenizer/bpe.h"

namespace rose {

// Filled by what starts the merging; AppendUnits does it. A unit is a byte or a character.
struct Merger::Units {
  int count = 0;
  std::array<char, 4 * kMostUnits + 8> bytes;        // with what ShortKey may read
  std::array<uint16_t, kMostUnits + 1> begin;        // [units + 1], offsets into bytes
  std::array<int32_t, kMostUnits> token;             // [units]
  alignas(16) std::array<int32_t, kMostUnits> keys;  // [units], of the pair with the next unit

  std::string_view Bytes(int unit, int stop) const {
    return {&bytes[begin[unit]], static_cast<size_t>(begin[stop] - begin[unit])};
  }
};

inline bool IsAscii(std::string_view text) {
  uint64_t all = 0;
  for (; text.size() >= 8; text.remove_prefix(8)) {
    uint64_t word;
    std::memcpy(&word, text.data(), 8);
    all |= word;
  }
  for (const char c : text) all |= static_cast<uint8_t>(c);
  return (all & 0x8080808080808080u) == 0;
}

}  // namespace rose
