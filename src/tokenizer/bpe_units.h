// A short piece being merged: what bpe.cc and bpe_chars.cc share.
#pragma once

#include "tokenizer/bpe.h"

namespace rose {

// Filled by what starts the merging; AppendUnits does it. A unit is a byte or a character.
struct Merger::Units {
  int count = 0;
  const char* bytes = nullptr;                       // of all units; kReadAhead more are readable
  std::array<uint16_t, kMostUnits + 1> begin;        // [units + 1], offsets into bytes
  std::array<int32_t, kMostUnits> token;             // [units]
  alignas(16) std::array<int32_t, kMostUnits> keys;  // [units], of the pair with the next unit

  void Add(int64_t offset, int32_t id) {
    begin[count] = static_cast<uint16_t>(offset);
    token[count++] = id;
  }
  std::string_view Bytes(int unit, int stop) const {
    return {&bytes[begin[unit]], static_cast<size_t>(begin[stop] - begin[unit])};
  }
};

// The index of the two bytes at `pos` in tables of pairs.
inline uint32_t PairAt(const char* bytes, int64_t pos) {
  return static_cast<uint32_t>(static_cast<uint8_t>(bytes[pos])) << 8 |
         static_cast<uint8_t>(bytes[pos + 1]);
}

// Of a piece: kReadAhead bytes after it are readable.
inline bool IsAscii(std::string_view piece) {
  uint64_t all = 0, word;
  for (; piece.size() > 8; piece.remove_prefix(8)) {
    std::memcpy(&word, piece.data(), sizeof word);
    all |= word;
  }
  std::memcpy(&word, piece.data(), sizeof word);
  all |= word << 8 * (8 - piece.size());
  return (all & 0x8080808080808080u) == 0;
}

}  // namespace rose
