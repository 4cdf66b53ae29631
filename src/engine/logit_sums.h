// What the logprobs of a row of logits need of all of them, with vector instructions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/cpu.h"

namespace rose {

// The logit of what is never drawn.
inline constexpr float kExcludedLogit = -std::numeric_limits<float>::infinity();

// NaN and -inf are never drawn; +inf becomes the largest number, so that differences stay numbers.
inline float SaneLogit(float logit) {
  if (!(logit > kExcludedLogit)) return kExcludedLogit;
  return std::min(logit, std::numeric_limits<float>::max());
}

constexpr int64_t kLogitBlock = 64;

// The largest of every kLogitBlock logits, the last ones of what is left; all as SaneLogit has them
// -> out [blocks].
void LargestOfBlocks(CpuIsa isa, std::span<const float> logits, std::vector<float>& out);

// The sum of e^(logit - largest) over all logits, as SaneLogit has them; `largest` is theirs. The
// same bits with every `isa` that the machine has. Each term is right to about 1e-14 of itself; one
// below 1e-300 may count as that.
double SumOfExponentials(CpuIsa isa, std::span<const float> logits, float largest);

}  // namespace rose
