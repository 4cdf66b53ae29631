// Scalar pieces that all kernels of this folder must round alike.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/experts/moe_gemm.h"

namespace rose {

__device__ inline float MoeBias(const MoeGemmParams& p, int expert, int row) {
  if (p.bias == nullptr) return 0.0f;
  return __uint_as_float(uint32_t{p.bias[int64_t{expert} * p.weight.rows + row].bits} << 16);
}

// g * sigmoid(alpha * g) * (u + up_offset), clamped; comparisons are false for NaN, which passes.
__device__ inline Bf16 MoeActivate(const MoeGemmParams& p, float gate, float up) {
  if (gate > p.limit) gate = p.limit;
  if (up > p.limit) up = p.limit;
  if (up < -p.limit) up = -p.limit;
  const float y = __fdividef(gate, 1.0f + __expf(-p.alpha * gate)) * (up + p.up_offset);
  return {__bfloat16_as_ushort(__float2bfloat16_rn(y))};
}

// Rows `row` and row + 1 of a token's sum over its slots, from products in memory.
__device__ inline uint32_t MoeSumPair(const MoeGemmParams& p, int64_t token, int row) {
  float a = 0, b = 0;
#pragma unroll 4
  for (int slot = 0; slot < p.experts_per_token; ++slot) {
    const int64_t entry = token * p.experts_per_token + slot;
    const float weight = p.weights[entry];
    const float2 v =
        __ldcg(reinterpret_cast<const float2*>(p.products + entry * p.weight.rows + row));
    a = __fmaf_rn(weight, v.x, a);
    b = __fmaf_rn(weight, v.y, b);
  }
  const __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);
  return reinterpret_cast<const uint32_t&>(pair);
}

}  // namespace rose
