// The end of every product: bias, the one rounding, the store.
#pragma once

#include <cuda_bf16.h>

#include "kernels/gemm/gemm.h"

namespace rose {

__device__ inline float BiasOf(const Bf16* bias, int64_t n) {
  return bias == nullptr ? 0.0f : __uint_as_float(uint32_t{bias[n].bits} << 16);
}

// To nearest, ties to even.
__device__ inline Bf16 RoundToBf16(float x) {
  return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
}

// `sum` has its bias.
template <typename Params>
__device__ void StoreSum(const Params& p, int64_t token, int64_t n, float sum) {
  const int64_t at = token * p.n + n;
  if (p.out_type == DType::kF32) {
    static_cast<float*>(p.out)[at] = sum;
  } else {
    static_cast<Bf16*>(p.out)[at] = RoundToBf16(sum);
  }
}

// The same for columns n and n + 1, where both are there or only the first.
template <typename Params>
__device__ void StorePair(const Params& p, int64_t token, int64_t n, float first, float second) {
  if (p.n % 2 != 0) {  // pairs are not aligned
    StoreSum(p, token, n, first);
    if (n + 1 < p.n) StoreSum(p, token, n + 1, second);
    return;
  }
  const int64_t at = token * p.n + n;
  if (p.out_type == DType::kF32) {
    *reinterpret_cast<float2*>(static_cast<float*>(p.out) + at) = {first, second};
  } else {
    *reinterpret_cast<__nv_bfloat162*>(static_cast<Bf16*>(p.out) + at) =
        __floats2bfloat162_rn(first, second);
  }
}

}  // namespace rose
