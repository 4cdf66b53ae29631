// A split's values in the decode kernel, their merging, and where results go. The order of sums is
// canonical.cuh's.
#pragma once

#include <cstdint>

#include "kernels/attention/canonical.cuh"
#include "kernels/attention/decode_copy.cuh"
#include "kernels/attention/page_tile.cuh"
#include "kernels/common/ptx/bulk_copy.cuh"

namespace rose {

// A thread's values of a row: dims 8 (warp * kTiles + n) + 2 (lane % 4) and the next, of lane / 4.
template <int kDim>
struct Values {
  static constexpr int kTiles = kDim / 8 / kDecodeWarps;
  float v[kTiles][2];
  float offset, sum;  // of the row
  __device__ static int Dim(int n) {
    return (static_cast<int>(threadIdx.x) / 32 * kTiles + n) * 8 + threadIdx.x % 4 * 2;
  }
};

template <int kDim>
__device__ Values<kDim> SplitValues(const DecodeStep& step, DecodeShared<kDim>& shared) {
  constexpr int kTiles = Values<kDim>::kTiles;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = lane / 4;
  float c[kTiles][4] = {};
  float sum = 0;
  for (int j = step.begin; j < step.end; ++j) {
    const float factor = shared.factors[j][row];
    sum = __fadd_rn(__fmul_rn(sum, factor), shared.sums[j][row][lane % 4]);
    const unsigned at = step.ValuesAt(j);
    const uint32_t base = ptx::SharedAddress(shared.ring[at % kDecodeStages]);
    ptx::BarrierWait(&shared.full[at % kDecodeStages], at / kDecodeStages % 2);
    const auto* weights =
        reinterpret_cast<const uint32_t*>(&shared.weights[row][j * kPage + lane % 4 * 2]);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      c[n][0] = __fmul_rn(c[n][0], factor);
      c[n][1] = __fmul_rn(c[n][1], factor);
    }
#pragma unroll
    for (int i = 0; i < 4; i += 2) {  // 16 keys each
      const uint32_t low[4] = {weights[i * 8], 0, weights[i * 8 + 4], 0};
      const uint32_t high[4] = {weights[i * 8 + 8], 0, weights[i * 8 + 12], 0};
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        uint32_t v[4];
        LoadTransposed(v, base + TileByte<kDim>(i * 16 + lane, warp * kTiles + n));
        ptx::MmaBf16(c[n], low, v[0], v[1]);
        ptx::MmaBf16(c[n], high, v[2], v[3]);
      }
    }
    ptx::BarrierArrive(&shared.empty[at % kDecodeStages]);
  }
  Values<kDim> values;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    values.v[n][0] = c[n][0];
    values.v[n][1] = c[n][1];
  }
  values.offset = shared.offsets[row];
  values.sum = QuadSum(sum);
  return values;
}

// What a thread has merged of its row.
template <int kDim>
struct MergedValues {
  Merged row;
  float v[Values<kDim>::kTiles][2];

  __device__ void Clear() {
    row = {};
#pragma unroll
    for (auto& pair : v) pair[0] = pair[1] = 0;
  }
  __device__ void Add(const Values<kDim>& split) {
    const MergeFactors factors = Merge(row, split.offset, split.sum);
#pragma unroll
    for (int n = 0; n < Values<kDim>::kTiles; ++n) {
      v[n][0] = factors.Apply(v[n][0], split.v[n][0]);
      v[n][1] = factors.Apply(v[n][1], split.v[n][1]);
    }
  }
};

template <int kDim>
__device__ void Store(const AttendParams& p, const DecodeStep& step,
                      const MergedValues<kDim>& merged) {
  const int row = threadIdx.x % 32 / 4;
  if (row >= step.heads) return;
  const int64_t head = step.head + row;
  const float factor = FinalFactor(merged.row, p.sinks ? Widen(p.sinks[head]) : kNothing);
  Bf16* out = p.out + (int64_t{step.item.row} * p.heads + head) * kDim;
#pragma unroll
  for (int n = 0; n < Values<kDim>::kTiles; ++n) {
    *reinterpret_cast<uint32_t*>(out + Values<kDim>::Dim(n)) =
        PackBf16(__fmul_rn(merged.v[n][0], factor), __fmul_rn(merged.v[n][1], factor));
  }
}

// Leaves a split's sums in the workspace: [head_dim] values, offset, sum of weights.
template <int kDim>
__device__ void LeavePartial(const AttendParams& p, const DecodeStep& step,
                             const Values<kDim>& values) {
  const int row = threadIdx.x % 32 / 4;
  if (row >= step.heads) return;
  float* to = p.work.partials +
              (int64_t{step.item.slot + step.item.part} * p.heads + step.head + row) * (kDim + 2);
#pragma unroll
  for (int n = 0; n < Values<kDim>::kTiles; ++n) {
    *reinterpret_cast<float2*>(to + Values<kDim>::Dim(n)) =
        make_float2(values.v[n][0], values.v[n][1]);
  }
  if (threadIdx.x / 32 == 0 && threadIdx.x % 4 == 0) {
    *reinterpret_cast<float2*>(to + kDim) = make_float2(values.offset, values.sum);
  }
}

}  // namespace rose
