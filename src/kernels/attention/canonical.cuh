// The one order in which attention sums a row (a query of one head), for all kernels:
//
//   tiles      the 64 keys of a page. Scores: one chain of bf16 MMAs over the head's dims, k16
//   steps
//              ascending, from zero.
//   offset     what is subtracted in the exponent (in powers of two). It is the maximum of the
//   first
//              tile that the row sees anything of; a later tile moves it only if its maximum is
//              larger by more than 8, a decision of each row alone. So weights reach 2^8 at most,
//              and most tiles scale nothing (scaling by 1 is the same as not scaling).
//   sums       a tile's weights: each lane of a quad adds its 16 keys (columns 8 i + 2 lane and
//              the next one, i ascending, pairs first); the sum of a lane over tiles is
//              sum * scale + tile. Values: o * scale, then a chain of MMAs over the tile's keys,
//              k16 steps ascending, weights rounded to bf16.
//   splits     tiles of 512 positions, from offset -inf and sums zero; then the quad's sums are
//   added,
//              (0 + 1) + (2 + 3).
//   merge      splits ascending, from offset -inf and sums zero. A split that a row sees nothing of
//              changes nothing.
//   end        the sink, once; one division; one rounding.
//
// Every product and sum names its rounding: contraction must not depend on the code around it.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace rose {

constexpr float kNothing = -__builtin_huge_valf();  // offset of a row that has seen no key
constexpr float kGrowth = 8.0f;
constexpr float kLog2e = 1.44269504088896340736f;

// 2^x by the hardware; 0 for -inf, exactly 1 for 0. Results below 2^-126 are 0.
__device__ inline float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Whether a tile with the largest (unscaled) score `top` moves the offset. False for top = -inf.
__device__ inline bool Grows(float offset, float top, float scale) {
  return __fmaf_rn(top, scale, -offset) > kGrowth;
}

// The offset in exponents: finite also where nothing was seen.
__device__ inline float Base(float offset) {
  return offset == kNothing ? 0.0f : offset;
}

__device__ inline float Weigh(float score, float scale, float base) {
  return Exp2(__fmaf_rn(score, scale, -base));
}

// A quad lane's share of a tile's weights: pairs (0, 1), (2, 3), ... of what it holds of a row.
struct LaneSum {
  float sum = 0;
  __device__ void Add(float a, float b) { sum = __fadd_rn(sum, __fadd_rn(a, b)); }
};

// The sum over the four lanes of a quad, in each of them.
__device__ inline float QuadSum(float x) {
  x = __fadd_rn(x, __shfl_xor_sync(~0u, x, 1));
  return __fadd_rn(x, __shfl_xor_sync(~0u, x, 2));
}
__device__ inline float QuadMax(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

// A row's splits merged so far, without its values: offset and sum of weights.
struct Merged {
  float offset = kNothing;
  float sum = 0;
};

// Factors of one step of the merge.
struct MergeFactors {
  float before, split;
  // What the merged values become: `split_value` is of the split that comes next.
  __device__ float Apply(float merged, float split_value) const {
    return __fmaf_rn(split_value, split, __fmul_rn(merged, before));
  }
};

__device__ inline MergeFactors Merge(Merged& merged, float offset, float sum) {
  const float next = fmaxf(merged.offset, offset);
  const MergeFactors factors{.before = Exp2(__fsub_rn(merged.offset, Base(next))),
                             .split = Exp2(__fsub_rn(offset, Base(next)))};
  merged.sum = factors.Apply(merged.sum, sum);
  merged.offset = next;
  return factors;
}

// What the merged values are multiplied by at the end. `sink` is the logit, or -inf for none.
__device__ inline float FinalFactor(const Merged& merged, float sink) {
  const float logit = __fmul_rn(sink, kLog2e);
  const float next = Base(fmaxf(merged.offset, logit));
  const float factor = Exp2(__fsub_rn(merged.offset, next));
  const float sum = __fmaf_rn(merged.sum, factor, Exp2(__fsub_rn(logit, next)));
  return __fdiv_rn(factor, sum);
}

}  // namespace rose
