// What the kernels that draw tokens share: ranks, weights, bins, and what they leave for each
// other.
#pragma once

#include "base/draw.h"
#include "kernels/sampler/sampler.h"

namespace rose {

constexpr int kParts = 64;         // of a row
constexpr int kPartThreads = 256;  // of a CTA that works on a part
constexpr int kPickThreads = 1024;
constexpr int kBins = 2048;             // of a row, by logit
constexpr int kListed = 4096;           // members of a bin that are listed
constexpr float kLeastScaled = -29.0f;  // below this ExpWeight is 0
constexpr float kLargestFloat = 3.402823466e38f;

__device__ inline float Excluded() {
  return __int_as_float(0xff800000);
}

__device__ inline float Sane(float logit) {
  if (!(logit > Excluded())) return Excluded();
  return logit > kLargestFloat ? kLargestFloat : logit;
}

// Larger = more likely: by logit, then by lower id. Both zeros are one number.
__device__ inline uint64_t Rank(float logit, int64_t id) {
  const uint32_t bits = logit == 0 ? 0 : __float_as_uint(logit);
  const uint32_t key = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return uint64_t{key} << 32 | (0xffffffffu - static_cast<uint32_t>(id));
}
__device__ inline int32_t IdOf(uint64_t rank) {
  return static_cast<int32_t>(0xffffffffu - static_cast<uint32_t>(rank));
}
__device__ inline float LogitOf(uint64_t rank) {
  const auto key = static_cast<uint32_t>(rank >> 32);
  return __uint_as_float((key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key);
}

// What the kernels leave for each other, for each draw.
struct DrawWork {
  uint64_t best[kParts];  // ranks
  uint64_t sum[kParts];   // of weights that the draw is among

  // Of a row with top_k or top_p.
  uint32_t count[kBins];  // tokens of a bin that have a weight
  uint64_t weight[kBins];
  // Where the last token lies that top_k keeps, and then the one that top_p does.
  struct Place {
    int32_t bin;      // -1: all are kept
    uint32_t listed;  // members of the bin, also those beyond kListed, which are in no list
    uint32_t count_before;
    uint64_t weight_before;  // in the bins before
    double wanted;           // top_p: the weight to be reached
    uint64_t ranks[kListed];
  };
  Place k, p;
  uint64_t last;  // the least rank that is kept; kUnknown where a list is too short to tell
};
constexpr uint64_t kUnknown = ~uint64_t{0};

struct Kernels {
  DrawParams p;
  DrawWork* work;
};

// The logits of a draw, as they count for it.
struct Logits {
  __device__ Logits(const DrawParams& p, const DrawRow& row)
      : values(row.edited_row >= 0 ? p.edited + row.edited_row * p.vocab
                                   : p.logits + row.logits_row * p.vocab) {}
  __device__ float operator[](int64_t id) const { return Sane(values[id]); }
  const float* values;
};

// 0 for what min_p excludes.
__device__ inline uint64_t WeightOf(float logit, float largest, const DrawRow& row) {
  const float scaled = (logit - largest) * row.rule.inverse_temperature;
  return scaled >= row.rule.min_p_bound ? ExpWeight(scaled) : 0;
}

__device__ inline int64_t PartSize(int64_t vocab) {
  return (vocab + kParts - 1) / kParts;
}

__device__ inline bool IsFiltered(const DrawParams& p, const DrawRow& row) {
  return row.rule.top_p < 1 || (row.rule.top_k > 0 && row.rule.top_k < p.vocab);
}

__device__ inline uint64_t WarpMax(uint64_t x) {
  for (int offset = 16; offset > 0; offset /= 2) {
    const uint64_t other = __shfl_xor_sync(~0u, x, offset);
    x = other > x ? other : x;
  }
  return x;
}

__device__ inline uint64_t WarpSum(uint64_t x) {
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(~0u, x, offset);
  return x;
}

// In every thread; kThreads / 32 <= 32 warps.
template <int kThreads, typename Reduce>
__device__ uint64_t BlockReduce(uint64_t x, Reduce reduce) {
  __shared__ uint64_t partial[kThreads / 32];
  x = reduce(x);
  __syncthreads();  // the values of an earlier call have been read
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
  __syncthreads();  // all warps' values are in `partial`
  return reduce(threadIdx.x % 32 < kThreads / 32 ? partial[threadIdx.x % 32] : 0);
}

// Bins of equal width of the scaled logit, 0 the most likely. Monotone: of two logits the larger is
// in no later bin.
__device__ inline int BinOf(float logit, float largest, const DrawRow& row) {
  const float scaled = (logit - largest) * row.rule.inverse_temperature;
  const int bin = static_cast<int>(scaled * (static_cast<float>(kBins) / kLeastScaled));
  return bin < kBins - 1 ? bin : kBins - 1;
}

// The best of all parts, in every thread of a warp.
__device__ inline uint64_t BestOf(const DrawWork& work) {
  uint64_t best = 0;
  for (int i = threadIdx.x % 32; i < kParts; i += 32) best = max(best, work.best[i]);
  return WarpMax(best);
}

}  // namespace rose
