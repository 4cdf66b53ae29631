// Scalar pieces that all kernels of this folder must round alike.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/experts/moe_gemm.h"

namespace rose {

// The smaller and the larger of two numbers, NaN where one is. PTX ISA, min, max.
__device__ inline float MoeMin(float a, float b) {
  float r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
__device__ inline float MoeMax(float a, float b) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}

// g * sigmoid(alpha * g) * (u + up_offset), clamped; NaN passes. What ex2 flushes to zero is lost
// beside 1 anyway.
__device__ inline Bf16 MoeActivate(const MoeGemmParams& p, float gate, float up) {
  gate = MoeMin(gate, p.limit);
  up = MoeMax(MoeMin(up, p.limit), -p.limit);
  float e;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(-p.alpha * gate * 1.4426950216f));
  const float y = __fdividef(gate, 1.0f + e) * (up + p.up_offset);
  return {__bfloat16_as_ushort(__float2bfloat16_rn(y))};
}

}  // namespace rose
