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

// What a thread needs of the bias for a tile's columns, two bf16 a word: columns 2 q and 2 q + 1 of
// every 8, q its place among four lanes.
template <int kColumns>
struct TileBias {
  uint32_t pairs[kColumns / 8];
};

// For columns from `column` on, a multiple of 8; to be called well ahead of StoreTile.
template <int kColumns>
__device__ TileBias<kColumns> LoadBias(const GemmParams& p, int64_t column) {
  TileBias<kColumns> bias = {};
  const int64_t first = column + threadIdx.x % 4 * 2;
  if (p.bias == nullptr) return bias;
  if (p.n % 2 != 0) {
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j) {
      for (int i = 0; i < 2; ++i) {
        const int64_t n = first + 8 * j + i;
        if (n < p.n) bias.pairs[j] |= uint32_t{p.bias[n].bits} << 16 * i;
      }
    }
    return bias;
  }
#pragma unroll
  for (int j = 0; j < kColumns / 8; ++j) {
    const int64_t n = first + 8 * j;
    if (n < p.n) bias.pairs[j] = __ldg(reinterpret_cast<const uint32_t*>(p.bias + n));
  }
  return bias;
}

// Among four lanes: word i of lane q becomes word q of lane i.
__device__ inline void TransposeWords(uint32_t (&words)[4]) {
  const uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (int step = 1; step <= 2; ++step) {
    const bool is_upper = (lane & step) != 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if ((i & step) != 0) continue;
      const uint32_t sent = is_upper ? words[i] : words[i + step];
      const uint32_t got = __shfl_xor_sync(~0u, sent, step);
      (is_upper ? words[i] : words[i + step]) = got;
    }
  }
}

// A tile's values j and j + 1 with their bias.
template <int kColumns>
__device__ float2 WithBias(const TileBias<kColumns>& bias, const float (&total)[kColumns / 2],
                           int j) {
  const uint32_t pair = bias.pairs[j / 4];
  return {total[j] + __uint_as_float(pair << 16),
          total[j + 1] + __uint_as_float(pair & 0xffff0000u)};
}

// Stores a warpgroup's 64 x kColumns of `total`, which has products' layout, with its bias: rows
// from `token` on, but those below `end`, and columns from `column` on, a multiple of 8.
template <int kColumns>
__device__ void StoreTile(const GemmParams& p, int64_t token, int64_t end, int64_t column,
                          const TileBias<kColumns>& bias, const float (&total)[kColumns / 2]) {
  const int lane = threadIdx.x % 32;
  const int64_t row = token + threadIdx.x % 128 / 32 * 16 + lane / 4;  // and 8 further
  if (p.out_type != DType::kBf16 || p.n % 8 != 0) {
#pragma unroll
    for (int j = 0; j < kColumns / 2; j += 2) {
      const int64_t to = row + j % 4 * 4, n = column + j / 4 * 8 + lane % 4 * 2;
      const float2 values = WithBias<kColumns>(bias, total, j);
      if (to < end && n < p.n) StorePair(p, to, n, values.x, values.y);
    }
    return;
  }
  // 64 bytes of a row by four lanes; as pairs, stores took a fifth of a large product's time.
#pragma unroll
  for (int octet = 0; octet < kColumns / 8; octet += 4) {
#pragma unroll
    for (int down = 0; down < 2; ++down) {
      uint32_t words[4] = {};
#pragma unroll
      for (int i = 0; i < 4 && octet + i < kColumns / 8; ++i) {
        const float2 values = WithBias<kColumns>(bias, total, 4 * (octet + i) + 2 * down);
        words[i] = uint32_t{RoundToBf16(values.x).bits} | uint32_t{RoundToBf16(values.y).bits}
                                                              << 16;
      }
      TransposeWords(words);
      const int64_t to = row + 8 * down, n = column + 8 * (octet + lane % 4);
      if (to < end && octet + lane % 4 < kColumns / 8 && n < p.n) {
        *reinterpret_cast<uint4*>(static_cast<Bf16*>(p.out) + to * p.n + n) = {words[0], words[1],
                                                                               words[2], words[3]};
      }
    }
  }
}

}  // namespace rose
