// Computes  which rows go to which expert: entries sorted by expert (ascending within one), cut
// into
//           tiles. Integers only; the same each time.
// Work      one CTA an expert: counts all entries, then collects its own. A warp takes a contiguous
//           part of the entries.
// Bound     latency: every CTA reads all entries twice, from L2.
// Requires  at most kMostExperts experts.
// Measured  not yet.
#include "base/check.h"
#include "device/launch.h"
#include "kernels/common/ptx/bulk_copy.cuh"
#include "kernels/experts/moe_gemm.h"

namespace rose {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr int kMostExperts = 1024;

struct PlanShared {
  int counts[kMostExperts];
  int of_warp[kWarps];  // own entries in the warps' parts
  int first;            // own first entry and tile: thread 0's
  int first_tile;
};

__global__ void __launch_bounds__(kThreads)
    smxx_moe_plan_kernel(const __grid_constant__ MoePlanParams p) {
  __shared__ PlanShared s;
  const int own = static_cast<int>(blockIdx.x);
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  ptx::DependencyLaunch();
  ptx::DependencyWait();
  for (int e = threadIdx.x; e < p.expert_count; e += kThreads) s.counts[e] = 0;
  __syncthreads();                                              // counts are zero
  const int part = (p.entries + kThreads - 1) / kThreads * 32;  // entries of a warp
  const int begin = min(p.entries, warp * part), end = min(p.entries, begin + part);
  int mine = 0;
  for (int i = begin + lane; i < end; i += 32) {
    const int expert = p.experts[i];
    atomicAdd(&s.counts[expert], 1);
    mine += expert == own;
  }
  mine = __reduce_add_sync(~0u, mine);
  if (lane == 0) s.of_warp[warp] = mine;
  __syncthreads();  // counts are whole
  if (warp == 0) {
    int first = 0, tiles = 0;
    for (int e = lane; e < own; e += 32) {
      first += s.counts[e];
      tiles += (s.counts[e] + p.tile - 1) / p.tile;
    }
    first = __reduce_add_sync(~0u, first);
    tiles = __reduce_add_sync(~0u, tiles);
    if (lane == 0) s.first = first, s.first_tile = tiles;
  }
  __syncthreads();  // warp 0 has found the places
  const int count = s.counts[own], tiles = (count + p.tile - 1) / p.tile;
  for (int t = threadIdx.x; t < tiles; t += kThreads)
    p.out.tiles[s.first_tile + t] = {own, s.first + t * p.tile, min(p.tile, count - t * p.tile)};
  if (own == p.expert_count - 1 && threadIdx.x == 0) *p.out.tile_count = s.first_tile + tiles;
  int at = s.first;
  for (int w = 0; w < warp; ++w) at += s.of_warp[w];
  for (int base = begin; base < end; base += 32) {
    const int i = base + lane;
    const bool is_own = i < end && p.experts[i] == own;
    const unsigned votes = __ballot_sync(~0u, is_own);
    if (is_own) p.out.entries[at + __popc(votes & ((1u << lane) - 1))] = i;
    at += __popc(votes);
  }
}

int64_t Align(int64_t bytes) {
  return (bytes + 255) / 256 * 256;
}

}  // namespace

int64_t MoePlanBytes(int64_t entries, int experts) {
  return 256 + Align(entries * 4) +
         Align((entries + experts) * static_cast<int64_t>(sizeof(MoeTile)));
}

MoePlanMemory MoePlanAt(void* workspace, int64_t entries, int /*experts*/) {
  auto* at = static_cast<char*>(workspace);
  return {.entries = reinterpret_cast<int*>(at + 256),
          .tiles = reinterpret_cast<MoeTile*>(at + 256 + Align(entries * 4)),
          .tile_count = reinterpret_cast<int*>(at)};
}

void LaunchMoePlan(const MoePlanParams& params, cudaStream_t stream) {
  ROSE_CHECK(params.expert_count <= kMostExperts, "experts=", params.expert_count);
  ROSE_CHECK(params.tile > 0, "tile=", params.tile);
  Launch("smxx_moe_plan", smxx_moe_plan_kernel,
         {.grid = dim3(static_cast<unsigned>(params.expert_count)),
          .block = dim3(kThreads),
          .dependent = true},
         stream, params);
}

}  // namespace rose
