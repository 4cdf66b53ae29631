// The draw of a token: one random word and integer weights.
//
// Every step is either integer arithmetic or single IEEE f32 operations without contraction, and no
// sum depends on its order, since weights are integers. So a device that adds them in any order
// draws the same token bit for bit. That is why this is an inverse distribution function over
// integers and not Gumbel noise: noise needs a logarithm of the same bits on every device, and a
// random word for every token of the vocabulary instead of one.
//
// The functions are constexpr so that kernels may call them too; what does must be compiled without
// contraction (-fmad=false).
//
// 1. word = Philox4x32-10 of key = seed, counter = (position, 0): 64 bits.
// 2. A kept token has the weight ExpWeight((logit - largest logit) * (1 / temperature)): 2^40 for
// the
//    largest, 0 below about 2^-40 of it.
// 3. total = sum of weights; target = high 64 bits of word * total; the token drawn is the lowest
// id
//    at which the running sum over kept ids in ascending order exceeds the target.
#pragma once

#include <array>
#include <cstdint>

namespace rose {

// Philox4x32-10, the counter-based generator of Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3" (2011).
constexpr std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter,
                                         std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xd2511f53u} * counter[0];
    const uint64_t b = uint64_t{0xcd9e8d57u} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9e3779b9u;
    key[1] += 0xbb67ae85u;
  }
  return counter;
}

// The random word of a draw. `position` is that of the token drawn.
constexpr uint64_t DrawWord(uint64_t seed, int64_t position) {
  const uint64_t p = static_cast<uint64_t>(position);
  const auto words = Philox({static_cast<uint32_t>(p), static_cast<uint32_t>(p >> 32), 0, 0},
                            {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return uint64_t{words[1]} << 32 | words[0];
}

inline constexpr int kWeightBits = 40;

// round-down(2^40 * e^x) for x <= 0, with a relative error of at most 2e-6; 0 for NaN.
constexpr uint64_t ExpWeight(float x) {
  const float t = x * 1.44269504f;  // log2(e)
  if (!(t > -(kWeightBits + 1.0f))) return 0;
  // Floor, without a call: -41 < t <= 0, so the cast fits and rounds up.
  int whole = static_cast<int>(t);
  if (static_cast<float>(whole) > t) --whole;
  const float f = t - static_cast<float>(whole);
  // 2^f on [0, 1): interpolation at six Chebyshev points, relative error 8.2e-8 in f32.
  float p = 2.0817915e-4f;
  p = p * f + 1.2692166e-3f;
  p = p * f + 9.6521955e-3f;
  p = p * f + 5.5496022e-2f;
  p = p * f + 2.4022721e-1f;
  p = p * f + 6.9314718e-1f;
  p = p * f + 1.0f;
  const uint64_t mantissa = static_cast<uint64_t>(p * 8388608.0f);  // exact: 2^23 .. 2^24
  return mantissa << (kWeightBits - 23) >> -whole;
}

// A number in [0, total) for a random word; total > 0.
constexpr uint64_t DrawTarget(uint64_t word, uint64_t total) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>(static_cast<Wide>(word) * total >> 64);
}

// How one token is drawn, as every device needs it: engine/sampler.h has the meanings and the
// order.
struct DrawRule {
  float inverse_temperature = 0;  // 0 = the largest logit is taken
  float min_p_bound = 0;          // (logit - largest) * inverse_temperature is at least this
  int32_t top_k = 0;              // 0 = all
  double top_p = 1;               // >= 1 = all
  uint64_t word = 0;              // DrawWord
  float repetition_penalty = 1, frequency_penalty = 0, presence_penalty = 0;
};

// What is changed about one logit before the draw, in this order: the bias is added; the penalties
// apply if the token occurred; it is excluded.
struct LogitEdit {
  int32_t id = 0;
  float bias = 0;            // 0 = none
  int32_t occurrences = -1;  // in the output; -1 = neither there nor in the prompt
  bool excluded = false;
};

}  // namespace rose
