// bf16 on the device: the same functions as ToFloat and ToBf16 of tensor/dtype.h.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace rose {

__device__ inline float Widen(uint16_t bits) {
  return __uint_as_float(uint32_t{bits} << 16);
}

// To nearest, ties to even; NaN stays NaN.
__device__ inline uint16_t Narrow(float x) {
  const uint32_t u = __float_as_uint(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((u >> 16) | 0x40u);
  return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

// The sum over a warp, in every lane, in a fixed order.
__device__ inline float WarpSum(float x) {
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(~0u, x, offset);
  return x;
}

}  // namespace rose
