// What a thread of the prefill kernel does with its rows: masks, weights, and the merging of
// splits. The order of sums is canonical.cuh's.
#pragma once

#include <cstdint>

#include "kernels/attention/canonical.cuh"
#include "kernels/attention/page_tile.cuh"
#include "kernels/attention/prefill_copy.cuh"

namespace rose {

// Offsets and sums of weights, of the split at hand or one that ended.
struct SplitSums {
  float offset[2], sum[2];
};

// What a thread knows of its two rows, [0] of lane / 4 and [1] 8 further in the warp's 16.
struct QueryRows {
  int position[2];  // -1: no such row
  SplitSums split;
  Merged merged[2];
  bool has_merged;
  float factor[2];  // of the values before the page at hand
};

__device__ inline void BeginSplit(SplitSums& split) {
  split = {.offset = {kNothing, kNothing}, .sum = {0, 0}};
}

// Of the thread's row h, [0] or [1]: which of the tile's queries it is.
__device__ inline int QueryOf(int h) {
  return static_cast<int>(threadIdx.x) / 32 * 16 + threadIdx.x % 32 / 4 + 8 * h;
}

__device__ inline void BeginRows(const AttendParams& p, const PrefillUnit& unit, QueryRows& rows) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int token = QueryOf(h) / p.group;
    rows.position[h] = token < unit.tile.rows ? unit.tile.position + token : -1;
    rows.merged[h] = {};
  }
  rows.has_merged = false;
  BeginSplit(rows.split);
}

// -inf for keys that a row does not see; `position` is that of the page's first key.
__device__ inline void Mask(const AttendParams& p, const QueryRows& rows, int position,
                            float (&s)[32]) {
  const int column = position + threadIdx.x % 4 * 2;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int at = rows.position[h];
    const int first = p.window > 0 ? at - p.window + 1 : 0;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int key = column + n * 8 + i;
        if (key > at || key < first) s[n * 4 + h * 2 + i] = kNothing;
      }
    }
  }
}

// Turns scores into weights, and takes account of them in offsets and sums. True if the values
// before are to be multiplied by rows.factor.
__device__ inline bool Weights(const AttendParams& p, QueryRows& rows, float (&s)[32]) {
  float top[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    top[h] = fmaxf(s[h * 2], s[h * 2 + 1]);
#pragma unroll
    for (int n = 1; n < 8; ++n) {
      top[h] = fmaxf(top[h], fmaxf(s[n * 4 + h * 2], s[n * 4 + h * 2 + 1]));
    }
  }
  // A row grows if and only if one of its four lanes sees it grow.
  const bool grows = __any_sync(~0u, Grows(rows.split.offset[0], top[0], p.scale) ||
                                         Grows(rows.split.offset[1], top[1], p.scale));
  if (grows) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      top[h] = QuadMax(top[h]);
      rows.factor[h] = 1;
      if (Grows(rows.split.offset[h], top[h], p.scale)) {
        const float offset = __fmul_rn(top[h], p.scale);
        rows.factor[h] = Exp2(__fsub_rn(rows.split.offset[h], offset));
        rows.split.offset[h] = offset;
        rows.split.sum[h] = __fmul_rn(rows.split.sum[h], rows.factor[h]);
      }
    }
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float base = Base(rows.split.offset[h]);
    LaneSum sum;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      float& a = s[n * 4 + h * 2];
      float& b = s[n * 4 + h * 2 + 1];
      a = Weigh(a, p.scale, base);
      b = Weigh(b, p.scale, base);
      sum.Add(a, b);
    }
    rows.split.sum[h] = __fadd_rn(rows.split.sum[h], sum.sum);
  }
  return grows;
}

__device__ inline void Pack(const float (&s)[32], uint32_t (&weights)[16]) {
#pragma unroll
  for (int i = 0; i < 16; ++i) weights[i] = PackBf16(s[2 * i], s[2 * i + 1]);
}

// Merges the split whose values are in o. Earlier ones wait in shared memory (unless this is the
// first), by thread; the result goes there, or to o if this is the last.
template <int kDim>
__device__ void MergeSplit(PrefillShared<kDim>& shared, QueryRows& rows, const SplitSums& split,
                           bool is_last, float (&o)[kDim / 64][32]) {
  const MergeFactors factors[2] = {Merge(rows.merged[0], split.offset[0], QuadSum(split.sum[0])),
                                   Merge(rows.merged[1], split.offset[1], QuadSum(split.sum[1]))};
#pragma unroll
  for (int d = 0; d < kDim / 64; ++d) {
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      float4& slot = shared.merged[d * 8 + n][threadIdx.x];
      float4 v = rows.has_merged ? slot : float4{};
      v.x = factors[0].Apply(v.x, o[d][n * 4]);
      v.y = factors[0].Apply(v.y, o[d][n * 4 + 1]);
      v.z = factors[1].Apply(v.z, o[d][n * 4 + 2]);
      v.w = factors[1].Apply(v.w, o[d][n * 4 + 3]);
      if (is_last) {
        o[d][n * 4] = v.x;
        o[d][n * 4 + 1] = v.y;
        o[d][n * 4 + 2] = v.z;
        o[d][n * 4 + 3] = v.w;
      } else {
        slot = v;
      }
    }
  }
  rows.has_merged = true;
}

template <int kDim>
__device__ void Store(const AttendParams& p, const PrefillUnit& unit, const QueryRows& rows,
                      const float (&o)[kDim / 64][32]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (rows.position[h] < 0) continue;
    const int query = QueryOf(h), head = unit.kv_head * p.group + query % p.group;
    const int64_t row = unit.tile.row + query / p.group;
    const float factor = FinalFactor(rows.merged[h], p.sinks ? Widen(p.sinks[head]) : kNothing);
    Bf16* out = p.out + (row * p.heads + head) * kDim + threadIdx.x % 4 * 2;
#pragma unroll
    for (int d = 0; d < kDim / 64; ++d) {
#pragma unroll
      for (int n = 0; n < 8; ++n) {
        const float* v = &o[d][n * 4 + h * 2];
        *reinterpret_cast<uint32_t*>(out + d * 64 + n * 8) =
            PackBf16(__fmul_rn(v[0], factor), __fmul_rn(v[1], factor));
      }
    }
  }
}

}  // namespace rose
