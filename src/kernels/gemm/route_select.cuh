// How a warp chooses a token's experts from its logits.
#pragma once

#include <cstdint>

#include "kernels/gemm/gemm.h"

namespace rose {

// Larger logits give larger numbers, equal ones (-0 and +0, too) equal numbers; NaN gives the
// smallest, above the 0 of one that is taken.
__device__ inline uint32_t OrderOf(float logit) {
  if (isnan(logit)) return 1;
  const uint32_t bits = __float_as_uint(logit + 0.0f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// Writes the choice of `token` and its weights. A lane holds every 32nd logit as a number that
// orders as the logits do; top_k rounds of a maximum over the warp. experts <= 32 kPerLane.
template <int kPerLane>
__device__ void ChooseExperts(const RouteParams& p, const float* logits, int64_t token) {
  const int lane = threadIdx.x % 32;
  uint32_t order[kPerLane];
  for (int i = 0; i < kPerLane; ++i) {
    const int expert = lane + 32 * i;
    order[i] = expert < p.experts ? OrderOf(logits[expert]) : 0;
  }
  int mine = 0;  // the expert of rank `lane`
  for (int k = 0; k < p.top_k; ++k) {
    // Of equal ones the lower index wins: it is the larger complement.
    uint64_t best = 0;
    for (int i = 0; i < kPerLane; ++i) {
      best = max(best, uint64_t{order[i]} << 32 | ~static_cast<uint32_t>(lane + 32 * i));
    }
    for (int offset = 16; offset > 0; offset /= 2) {
      best = max(best, __shfl_xor_sync(~0u, best, offset));
    }
    const int expert = static_cast<int>(~static_cast<uint32_t>(best));
    for (int i = 0; i < kPerLane; ++i) {
      if (expert == lane + 32 * i) order[i] = 0;
    }
    if (lane == k) mine = expert;
  }
  const float logit = lane < p.top_k ? logits[mine] : 0;
  const float weight = expf(logit - __shfl_sync(~0u, logit, 0));
  float sum = 0;
  for (int k = 0; k < p.top_k; ++k) sum += __shfl_sync(~0u, weight, k);
  if (lane < p.top_k) {
    p.chosen[token * p.top_k + lane] = mine;
    p.weights[token * p.top_k + lane] = weight / sum;
  }
}

}  // namespace rose
