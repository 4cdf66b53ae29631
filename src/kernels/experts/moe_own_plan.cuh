// The plan of a step's rows (MoePlan) as a CTA makes it for itself in shared memory, where a kernel
// of its own would cost more than it saves: few entries.
#pragma once

#include "kernels/experts/moe_gemm.h"

namespace rose {

// Places in shared memory, one behind the other.
struct OwnPlan {
  int* experts;  // [entries], of each entry
  int* ranks;    // [entries], among those of the same expert
  int* entries;  // [entries]
  int* firsts;   // [experts], first entries; counts at first
  int* tile_count;
  MoeTile* tiles;  // [entries]

  __host__ __device__ static int64_t Bytes(int entries, int experts) {
    return (3 * int64_t{entries} + experts + 1) * 4 +
           entries * static_cast<int64_t>(sizeof(MoeTile));
  }
  __device__ static OwnPlan At(uint8_t* memory, int entries, int experts) {
    OwnPlan plan;
    plan.experts = reinterpret_cast<int*>(memory);
    plan.ranks = plan.experts + entries;
    plan.entries = plan.ranks + entries;
    plan.firsts = plan.entries + entries;
    plan.tile_count = plan.firsts + experts;
    plan.tiles = reinterpret_cast<MoeTile*>(plan.tile_count + 1);
    return plan;
  }

  // Ranks, and in `firsts` the counts. One warp, 32 entries at a time.
  __device__ void Count(int entry_count, int expert_count, int lane) const {
#pragma unroll 1
    for (int e = lane; e < expert_count; e += 32) firsts[e] = 0;
    __syncwarp();
#pragma unroll 1
    for (int base = 0; base < entry_count; base += 32) {
      const int i = base + lane;
      const bool is_entry = i < entry_count;
      const int expert = is_entry ? experts[i] : -1;
      const unsigned same = __match_any_sync(~0u, expert);
      const int before = is_entry ? firsts[expert] : 0;
      const int rank = __popc(same & ((1u << lane) - 1));
      __syncwarp();  // all have read the counts so far
      if (is_entry) {
        ranks[i] = before + rank;
        if (rank == 0) firsts[expert] = before + __popc(same);
      }
      __syncwarp();
    }
  }

  // Counts become first entries; tiles of at most `tile` entries. One warp.
  __device__ void CutTiles(int expert_count, int tile, int lane) const {
    int first = 0, cut = 0;
#pragma unroll 1
    for (int base = 0; base < expert_count; base += 32) {
      const int expert = base + lane;
      const int count = expert < expert_count ? firsts[expert] : 0;
      const int own_tiles = (count + tile - 1) / tile;
      int count_sum = count, tile_sum = own_tiles;  // inclusive prefixes
      for (int step = 1; step < 32; step *= 2) {
        const int c = __shfl_up_sync(~0u, count_sum, step), t = __shfl_up_sync(~0u, tile_sum, step);
        if (lane >= step) count_sum += c, tile_sum += t;
      }
      const int at = first + count_sum - count;
      if (expert < expert_count) firsts[expert] = at;
#pragma unroll 1
      for (int t = 0; t < own_tiles; ++t)
        tiles[cut + tile_sum - own_tiles + t] = {expert, at + t * tile,
                                                 min(tile, count - t * tile)};
      first += __shfl_sync(~0u, count_sum, 31);
      cut += __shfl_sync(~0u, tile_sum, 31);
    }
    if (lane == 0) *tile_count = cut;
  }

  // All threads of the CTA.
  __device__ MoePlan Make(const MoeGemmParams& p, int tile) const {
#pragma unroll 1
    for (int i = threadIdx.x; i < p.entry_count; i += blockDim.x) experts[i] = p.experts[i];
    __syncthreads();  // warp 0 needs all experts
    if (threadIdx.x < 32) {
      const int lane = static_cast<int>(threadIdx.x);
      Count(p.entry_count, p.weight.experts, lane);
      CutTiles(p.weight.experts, tile, lane);
      __syncwarp();
#pragma unroll 1
      for (int i = lane; i < p.entry_count; i += 32) entries[firsts[experts[i]] + ranks[i]] = i;
    }
    __syncthreads();  // the plan is whole
    return {entries, tiles, tile_count};
  }
};

}  // namespace rose
