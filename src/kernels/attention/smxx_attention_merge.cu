// Merges the splits of decode rows. The order of sums is canonical.cuh's.
// Work   a CTA for each head of a row that was cut; a thread has one dim. What splits left is read
//        ahead in batches, since the sum is a chain.
// Bound  latency.
#include <algorithm>

#include "device/launch.h"
#include "kernels/attention/canonical.cuh"
#include "kernels/attention/page_tile.cuh"
#include "kernels/attention/work.h"
#include "kernels/common/ptx/bulk_copy.cuh"

namespace rose {
namespace {

constexpr int kBatch = 16;  // splits read at a time

struct MergeParams {
  const Bf16* sinks;
  Bf16* out;
  const WorkCounts* counts;
  const CutRow* rows;
  const float* partials;
  int heads;
};

template <int kDim>
__global__ void __launch_bounds__(kDim)
    smxx_attention_merge_kernel(const __grid_constant__ MergeParams p) {
  ptx::DependencyLaunch();
  // The plan is there before any kernel behind it begins.
  const int count = p.counts->cut_rows;
  const int64_t head = blockIdx.x;
  CutRow row = static_cast<int>(blockIdx.y) < count ? p.rows[blockIdx.y] : CutRow{};
  const float sink = p.sinks ? Widen(p.sinks[head]) : kNothing;
  ptx::DependencyWait();  // what the splits left
  for (int i = blockIdx.y; i < count; i += gridDim.y) {
    if (i != static_cast<int>(blockIdx.y)) row = p.rows[i];
    Merged merged;
    float value = 0;
    for (int from = 0; from < row.parts; from += kBatch) {
      float v[kBatch];
      float2 sums[kBatch];
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        const int part = min(from + b, row.parts - 1);
        const float* partial =
            p.partials + (int64_t{row.slot + part} * p.heads + head) * (kDim + 2);
        v[b] = partial[threadIdx.x];
        sums[b] = *reinterpret_cast<const float2*>(partial + kDim);
      }
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        if (from + b < row.parts) value = Merge(merged, sums[b].x, sums[b].y).Apply(value, v[b]);
      }
    }
    const float factor = FinalFactor(merged, sink);
    const uint32_t pair = PackBf16(__fmul_rn(value, factor), 0);
    p.out[(int64_t{row.row} * p.heads + head) * kDim + threadIdx.x] = {static_cast<uint16_t>(pair)};
  }
}

}  // namespace

void LaunchMergeAttention(const AttentionParams& params, cudaStream_t stream) {
  const AttentionLimits& limits = params.limits;
  const AttentionWork work = LayOutWork(limits, params.workspace, nullptr);
  if (work.slots == 0) return;
  const MergeParams merge{.sinks = params.sinks,
                          .out = params.out,
                          .counts = work.counts,
                          .rows = work.cut_rows,
                          .partials = work.partials,
                          .heads = static_cast<int>(limits.heads)};
  const int64_t rows =
      std::min({params.step.rows, params.step.seq_count * kDecodeRows, int64_t{0x7fff}});
  Launch("smxx_attention_merge",
         limits.head_dim == 64 ? smxx_attention_merge_kernel<64> : smxx_attention_merge_kernel<128>,
         {.grid = dim3(static_cast<unsigned>(limits.heads), static_cast<unsigned>(rows)),
          .block = dim3(static_cast<unsigned>(limits.head_dim)),
          .dependent = true},
         stream, merge);
}

}  // namespace rose
