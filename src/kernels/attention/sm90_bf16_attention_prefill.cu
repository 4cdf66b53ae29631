// Attention of tiles of rows, with warpgroup products. The order of sums is canonical.cuh's.
//
// Computes  out for the rows of the plan's tiles: 64 queries a warpgroup (tokens times the query
//           heads of a KV head, token-major) walk over the keys that any row of the tile sees.
// Work      persistent CTAs take (tile, KV head) in turn, of a sequence the longest walk first. One
//           warpgroup copies pages into a ring, the others compute: scores of the next page are
//           issued before the values of this one, so that the tensor cores have work while weights
//           are made. Offsets, sums, weights and a split's values stay in registers;
//           what earlier splits gave waits in shared memory.
// Bound     exponentials and the instructions around them; then the tensor cores.
// Measured  on one H200 (2026-11-30, median of 9 graphs): from an empty cache, 64 query and 8 KV
//           heads of 64: 2048 tokens 92 us, 8192 1.15 ms = 480 TFLOP/s, 32768 18.5 ms; window 128:
//           8192 tokens 128 us, 32768 461 us. 2048 tokens at 30000: 2.2 ms. 32 and 4 heads of 128:
//           8192 tokens 1.11 ms = 494 TFLOP/s. Three warpgroups of 64 queries, merged values in
//           registers, queries loaded by those who compute: 417 and 427 TFLOP/s.
#include <algorithm>

#include "base/check.h"
#include "device/launch.h"
#include "kernels/attention/prefill_copy.cuh"
#include "kernels/attention/prefill_rows.cuh"
#include "kernels/attention/work.h"
#include "kernels/common/ptx/bulk_copy.cuh"
#include "kernels/common/ptx/warpgroup.cuh"
#include "kernels/common/ptx/wgmma.cuh"

namespace rose {
namespace {

// s = queries . keys of a stage; enqueued, as one group.
template <int kDim>
__device__ void IssueScores(const Panel* queries, const Panel* keys, float (&s)[32]) {
  ptx::ProductFence();
#pragma unroll
  for (int d = 0; d < kDim / 64; ++d) {
    const uint64_t q = ptx::TileDescriptor(queries[d]), k = ptx::TileDescriptor(keys[d]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      ptx::WarpgroupProduct<64>::Shared(s, q + i * 2, k + i * 2, d + i > 0);
    }
  }
  ptx::ProductCommit();
}

// o = weights . values of a stage, added to o unless `is_first`; enqueued, as one group.
template <int kDim>
__device__ void IssueValues(const Panel* values, const uint32_t (&weights)[16], bool is_first,
                            float (&o)[kDim / 64][32]) {
  ptx::ProductFence();
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int d = 0; d < kDim / 64; ++d) {
      // 16 keys further are 2048 bytes.
      ptx::WarpgroupProduct<64>::Registers<1>(
          o[d], &weights[i * 4], ptx::TileDescriptor(values[d]) + i * 128, i > 0 || !is_first);
    }
  }
  ptx::ProductCommit();
}

template <int kDim>
__device__ void ComputeUnit(const AttendParams& p, PrefillShared<kDim>& shared,
                            const PrefillUnit& unit, const Panel* queries,
                            RingPlace<PrefillSizes<kDim>::kStages>& from) {
  constexpr int kPanels = kDim / 64;
  QueryRows rows;
  float s[32], o[kPanels][32];
  uint32_t weights[16];
  BeginRows(p, unit, rows);
  // Positions that the warp's rows have, for masks.
  const int warp_query = static_cast<int>(threadIdx.x) / 32 * 16;
  const int lowest = unit.tile.position + warp_query / p.group;
  const int highest = unit.tile.position + min(unit.tile.rows - 1, (warp_query + 15) / p.group);
  const auto mask = [&](int page) {
    const int position = page * kPage;
    if (position + kPage - 1 > lowest || (p.window > 0 && position < highest - p.window + 1)) {
      Mask(p, rows, position, s);
    }
  };
  const auto release = [&](int stage) {
    if (threadIdx.x % 32 == 0) ptx::BarrierArrive(&shared.empty[stage]);
  };

  ptx::BarrierWait(&shared.full[from.stage], from.parity);  // the queries are there too
  IssueScores<kDim>(queries, shared.keys[from.stage], s);
  ptx::ProductWait<0>();
  mask(unit.page);
  Weights(p, rows, s);
  Pack(s, weights);
  bool is_first = true;  // page of a split
  for (int page = unit.page; page + 1 < unit.end; ++page) {
    const int stage = from.stage;
    from.Advance();
    ptx::BarrierWait(&shared.full[from.stage], from.parity);
    IssueScores<kDim>(queries, shared.keys[from.stage], s);
    IssueValues<kDim>(shared.values[stage], weights, is_first, o);
    const bool ends_split = page % kSplitPages == kSplitPages - 1;
    const SplitSums ended = rows.split;
    if (ends_split) BeginSplit(rows.split);
    ptx::ProductWait<1>();  // the scores; the values are under way
    mask(page + 1);
    const bool grows = Weights(p, rows, s);
    ptx::ProductWait<0>();  // the values
    release(stage);
    if (ends_split) {
      MergeSplit<kDim>(shared, rows, ended, /*is_last=*/false, o);
    } else if (grows) {
#pragma unroll
      for (auto& panel : o) {
#pragma unroll
        for (int i = 0; i < 32; ++i) panel[i] = __fmul_rn(panel[i], rows.factor[i / 2 % 2]);
      }
    }
    is_first = ends_split;
    Pack(s, weights);
  }
  IssueValues<kDim>(shared.values[from.stage], weights, is_first, o);
  ptx::ProductWait<0>();
  release(from.stage);
  from.Advance();
  MergeSplit<kDim>(shared, rows, rows.split, /*is_last=*/true, o);
  Store<kDim>(p, unit, rows, o);
}

template <int kDim>
__global__ void __launch_bounds__(PrefillSizes<kDim>::kThreads, 1)
    sm90_bf16_attention_prefill_kernel(const __grid_constant__ AttendParams p) {
  using S = PrefillSizes<kDim>;
  extern __shared__ __align__(1024) uint8_t memory[];
  auto& shared = *reinterpret_cast<PrefillShared<kDim>*>(memory);
  if (threadIdx.x == 0) {
    for (int i = 0; i < S::kStages; ++i) {
      ptx::BarrierInit(&shared.full[i], kPrefillCopyThreads / 32);
      ptx::BarrierInit(&shared.empty[i], S::kGroups * 4);
    }
    for (uint64_t& empty : shared.queries_empty) ptx::BarrierInit(&empty, S::kGroups * 4);
    ptx::BarriersReady();
  }
  __syncthreads();  // the barriers are there
  ptx::DependencyWait();
  const int units = p.work.counts->tiles * p.kv_heads;
  // The same in all lanes, and known to be: the branch is no divergence around the products.
  const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0);
  if (group == S::kGroups) {
    ptx::RegistersDown<S::kCopyRegisters>();
    return CopyPages(p, shared, units);
  }
  ptx::RegistersUp<S::kComputeRegisters>();

  RingPlace<S::kStages> from;
  RingPlace<S::kQueryBuffers> queries;
  PrefillUnit unit, next;
  bool is_there = TakeUnit(p, 0, units, unit);
  for (int round = 1; is_there; ++round) {
    is_there = TakeUnit(p, round, units, next);
    ComputeUnit<kDim>(p, shared, unit, shared.queries[queries.stage][group], from);
    __syncwarp();  // all lanes are done with the queries
    if (threadIdx.x % 32 == 0) ptx::BarrierArrive(&shared.queries_empty[queries.stage]);
    queries.Advance();
    unit = next;
  }
}

template <int kDim>
void LaunchPrefill(const AttendParams& prefill, int64_t bound, cudaStream_t stream) {
  using S = PrefillSizes<kDim>;
  constexpr size_t kBytes = sizeof(PrefillShared<kDim>);
  static_assert(kBytes <= 227 * 1024, "a CTA has 227 KB at most");
  AllowSharedMemory("sm90_bf16_attention_prefill", sm90_bf16_attention_prefill_kernel<kDim>,
                    kBytes);
  const auto ctas = static_cast<unsigned>(std::min<int64_t>(bound * prefill.kv_heads, SmCount()));
  Launch("sm90_bf16_attention_prefill", sm90_bf16_attention_prefill_kernel<kDim>,
         {.grid = dim3(ctas), .block = dim3(S::kThreads), .smem_bytes = kBytes, .dependent = true},
         stream, prefill);
}

}  // namespace

int PrefillQueries(int64_t head_dim) {
  return (head_dim == 64 ? PrefillSizes<64>::kGroups : PrefillSizes<128>::kGroups) * 64;
}

void LaunchPrefillAttention(const AttentionParams& params, cudaStream_t stream) {
  const AttendParams prefill = MakeAttendParams(params);
  const int64_t bound = TileBound(params, prefill.work);
  if (prefill.dim == 64) {
    LaunchPrefill<64>(prefill, bound, stream);
  } else {
    LaunchPrefill<128>(prefill, bound, stream);
  }
}

}  // namespace rose
