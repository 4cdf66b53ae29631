// What the products by tiles share. A CTA makes 128 tokens x kColumns of the output: a lane fills a
// ring with stages of 64 columns of x and weight, two warpgroups multiply 64 tokens each.
#pragma once

#include "device/tensor_map.h"
#include "kernels/common/ptx/bulk_copy.cuh"
#include "kernels/common/ptx/tensor_copy.cuh"
#include "kernels/common/ptx/warpgroup.cuh"
#include "kernels/common/ptx/wgmma.cuh"
#include "kernels/common/ring_place.cuh"
#include "kernels/gemm/internal.h"
#include "kernels/gemm/store.cuh"

namespace rose {

constexpr int kTileGroups = 2;  // warpgroups that multiply
constexpr int kTileThreads = (kTileGroups + 1) * 128;
constexpr int kTileTokens = kTileGroups * 64;
constexpr int kTileDepth = 64;  // columns of x and weight in a stage: 128 bytes
constexpr int kTileRowBytes = kTileDepth * sizeof(Bf16);
constexpr int kStepsPerChunk = 512 / kTileDepth;

struct TileMaps {
  CUtensorMap x;       // boxes of `rows` rows
  CUtensorMap weight;  // boxes of kColumns / kCluster rows
  int rows = 0;        // tokens of a CTA's tile, a multiple of 8, at most kTileTokens
};

// Tokens of a tile such that `tiles` tiles have as equal shares as they can: copies of rows that
// are not there are slow.
inline int PickTileTokens(int64_t tokens, int64_t tiles) {
  return static_cast<int>(CeilDivide(CeilDivide(tokens, tiles), 8) * 8);
}

// What a tile costs, its products and what does not shrink with them, where its columns of x and
// weight come in `steps` stages. In units of what one column of the output takes a stage, 2.2 ns.
constexpr int64_t TileCost(int64_t columns, int64_t steps) {
  return (columns + 32) * steps;
}

// The kCluster (1 or 2) CTAs of a cluster work on tiles of neighbouring tokens and share the
// weights: each brings its part of them to all. kBytes are what the stages may take.
template <int kColumns, int kCluster, int kBytes>
struct TileRing {
  static_assert(kColumns % (8 * kCluster) == 0, "a share of the weights is whole groups of 8 rows");
  static constexpr int kStageBytes = (kTileTokens + kColumns) * kTileRowBytes;
  static constexpr int kStages = kBytes / kStageBytes;
  using Slot = RingPlace<kStages>;

  uint8_t x[kStages][kTileTokens * kTileRowBytes];  // rows behind the tile's hold leftovers
  uint8_t weights[kStages][kColumns * kTileRowBytes];
  uint64_t full[kStages];   // the copying lane, and the bytes
  uint64_t empty[kStages];  // a lane of each multiplying warp of the cluster

  // By one thread, before the CTAs meet.
  __device__ void Begin() {
    for (int i = 0; i < kStages; ++i) {
      ptx::BarrierInit(&full[i], 1);
      ptx::BarrierInit(&empty[i], kCluster * kTileGroups * 4);
    }
  }

  // Begins to fill a slot with k from `k` on of x and of the weight: of its rows from `row` on.
  __device__ void CopyWeights(const TileMaps& maps, Slot slot, int k, int row) {
    constexpr int kShare = kColumns / kCluster;
    // The multiplying warps of all CTAs are done with what the slot held.
    ptx::BarrierWait(&empty[slot.stage], slot.parity ^ 1);
    uint64_t* filled = &full[slot.stage];
    ptx::BarrierExpect(filled, (maps.rows + kColumns) * kTileRowBytes);
    if constexpr (kCluster == 1) {
      ptx::CopyBox(weights[slot.stage], maps.weight, k, row, filled);
    } else {
      const int rank = static_cast<int>(ptx::ClusterRank());
      ptx::CopyBoxToAll(weights[slot.stage] + rank * kShare * kTileRowBytes, maps.weight, k,
                        row + rank * kShare, filled, (1 << kCluster) - 1);
    }
  }

  // Behind CopyWeights of the same slot: the rest of it.
  __device__ void CopyX(const TileMaps& maps, Slot slot, int k, int token) {
    ptx::CopyBox(x[slot.stage], maps.x, k, token, &full[slot.stage]);
  }

  // This warp is done with the slot; says so to all that fill it.
  __device__ void Release(int slot) {
    const uint32_t lane = threadIdx.x % 32;
    if constexpr (kCluster == 1) {
      if (lane == 0) ptx::BarrierArrive(&empty[slot]);
    } else {
      if (lane < kCluster) ptx::BarrierArriveAt(&empty[slot], lane);
    }
  }

  // The sum over `steps` stages (at least one), from zero; by warpgroup `group`.
  __device__ void Chunk(Slot& slot, int group, int steps, float (&sum)[kColumns / 2]) {
    int before = -1;  // the slot whose products may be unfinished
#pragma unroll 1
    for (int s = 0; s < steps; ++s, slot.Advance()) {
      ptx::BarrierWait(&full[slot.stage], slot.parity);
      const uint64_t a = ptx::TileDescriptor(x[slot.stage] + group * 64 * kTileRowBytes);
      const uint64_t b = ptx::TileDescriptor(weights[slot.stage]);
      ptx::ProductFence();
#pragma unroll
      for (int k = 0; k < kTileDepth / 16; ++k) {
        ptx::WarpgroupProduct<kColumns>::Shared(sum, a + 2 * k, b + 2 * k, s > 0 || k > 0);
      }
      ptx::ProductCommit();
      ptx::ProductWait<1>();
      if (before >= 0) Release(before);
      before = slot.stage;
    }
    ptx::ProductWait<0>();
    Release(before);
  }
};

}  // namespace rose
