// Made-up weights: every stored number is a pure function of a key and its place, by integer mixing
// and look-up in tables, so that host and device make the same bytes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tensor/weight.h"

namespace rose {

// 64 bits that look random: the output function of splitmix64 (Steele, Lea, Flood 2014) at step
// `index` of the stream that begins at `key`.
constexpr uint64_t RandomWord(uint64_t key, uint64_t index) {
  uint64_t x = key + index * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// The key of a weight: of a seed and the weight's name in its table.
uint64_t RandomKey(uint64_t seed, std::string_view name);

// Turns random bits into stored numbers. Number i of a weight, counted over all of its rows, takes
// its share of a word of the stream `key`:
//   bf16       word i / 2, four bytes (the lower ones for an even i); codes[their sum]
//   mxfp4      word i / 8, byte i % 8; codes[it] is a nibble
//   fp8-block  word i / 8, byte i % 8; codes[it] is an E4M3 number
// Scale i takes byte i % 8 of word i / 8 of the stream `scale_key`; exponents[it] is the E8M0 byte
// of mxfp4, or the exponent bits of fp8-block's F32, which is a power of two.
struct RandomTables {
  static constexpr int kSums = 4 * 255 + 1;

  uint64_t key = 0;
  uint64_t scale_key = 0;
  uint16_t codes[kSums] = {};
  uint8_t exponents[256] = {};
};

// How one weight is made up.
struct RandomRecipe {
  WeightFormat format;
  std::vector<int64_t> shape;  // logical
  RandomTables tables;
  // All numbers of a short bf16 weight that follows no distribution; empty = by the tables.
  std::vector<uint16_t> listed;
};

// Numbers about normally distributed with this mean and standard deviation. Formats with scales
// have mean 0 and blocks of different magnitude; bf16 ends at 3.45 deviations. The format must suit
// the shape: mxfp4 takes rows of whole blocks.
RandomRecipe MakeRandomRecipe(const WeightFormat& format, std::vector<int64_t> shape, uint64_t key,
                              double mean, double deviation);

// The weight of a recipe, without memory: types and shapes of data and scales, addresses null.
Weight LayOut(const RandomRecipe& recipe);

// Numbers [begin, end) of a weight, as they are stored -> out; scales likewise. mxfp4 takes an even
// `begin`. Any thread, any order.
void FillRandomData(const RandomRecipe& recipe, int64_t begin, int64_t end, uint8_t* out);
void FillRandomScales(const RandomRecipe& recipe, int64_t begin, int64_t end, uint8_t* out);

}  // namespace rose
