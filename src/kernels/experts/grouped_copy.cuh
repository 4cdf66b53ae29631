// How sm90_bf16_moe_gemm_grouped fills its stages.
#pragma once

#include <algorithm>

#include "kernels/common/ptx/bulk_copy.cuh"
#include "kernels/common/ptx/tensor_copy.cuh"
#include "kernels/common/ptx/warpgroup.cuh"
#include "kernels/experts/grouped_shape.cuh"

namespace rose {

// Fills stages for all tiles of the CTA: a thread of the first warpgroup. Weights come in boxes
// from one thread, rows of x, which lie apart, by 16-byte copies of all.
//
// NOTE: the instructions of these warps bound the kernel if there are many beside the copies: 19
// for each were 42 % of all, and 20 % of the time went by waiting for stages. So pointers are kept
// and advanced, and what the next tile begins with is fetched during this one. Boxes, and not a
// bulk copy for a row block's part (1 kB): these take turns of 120 ns each.
template <typename G>
struct Copier {
  static constexpr int kRows = G::kMaxTile / 16;  // of x, for a thread

  const MoeGemmParams& p;
  const CUtensorMap& map;
  typename G::Shared& s;
  typename G::Turn turn, landed;
  int pending;
  const uint8_t* x[kRows];  // this thread's piece of the stage's first unit
  int first_block;

  __device__ static int thread() { return static_cast<int>(threadIdx.x); }
  __device__ static int lane() { return thread() % 32; }
  __device__ static int piece() { return thread() % 8; }  // of a unit of a row
  __device__ static int first_row() { return thread() / 8; }

  __device__ void LoadEntries(const GroupedTile& at, int (&entries)[kRows]) const {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int row = first_row() + 16 * i;
      entries[i] = row < at.tile.count ? p.plan.entries[at.tile.first + row] : 0;
    }
  }
  __device__ void Start(const GroupedTile& at, const int (&entries)[kRows]) {
#pragma unroll
    for (int i = 0; i < kRows; ++i)
      x[i] = reinterpret_cast<const uint8_t*>(p.x) +
             int64_t{entries[i] / p.x_divisor} * (p.weight.cols * 2) + piece() * 16;
    first_block = at.tile.expert * p.weight.row_blocks() + at.row_block;
  }
  // Copies units `unit` and the next of a tile.
  __device__ void Stage(const GroupedTile& at, int unit, int units) {
    ptx::BarrierWait(&s.empty[turn.stage], turn.parity ^ 1);  // all warps have read the stage
    if (thread() == 0) {
      constexpr uint32_t kBoxBytes = G::kRowBlocks * G::Unit::kBytes;
      const int boxes = min(kGroupedStageUnits, units - unit);
      ptx::BarrierExpect(&s.full[turn.stage], boxes * kBoxBytes);
#pragma unroll
      for (int u = 0; u < kGroupedStageUnits; ++u)
        if (u < boxes)
          ptx::CopyBox(s.weights[turn.stage][u], map, (unit + u) * (G::Unit::kBytes / 8),
                       first_block, &s.full[turn.stage]);
    }
    const uint32_t to =
        ptx::SharedAddress(&s.x[turn.stage]) + first_row() * 128 + (piece() ^ first_row() % 8) * 16;
    const int rows = at.tile.count - first_row(), inside = p.weight.cols / 8 - piece();
#pragma unroll
    for (int u = 0; u < kGroupedStageUnits; ++u) {
      const bool is_inside = (unit + u) * (PackedExperts::kUnitCols / 8) < inside;
#pragma unroll
      for (int i = 0; i < kRows; ++i)
        if (16 * i < rows)
          ptx::CopyAsync16(to + u * sizeof(s.x[0].x[0]) + i * 16 * 128, x[i] + u * 128, is_inside);
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) x[i] += kGroupedStageUnits * 128;
    ptx::CopyAsyncCommit();
    turn.Advance();
    if (++pending == G::kInFlight) {
      ptx::CopyAsyncWait<G::kInFlight - 1>();  // the oldest pending stage is there
      Land();
    }
  }
  __device__ void Land() {
    ptx::FenceAsync();  // this thread's rows before wgmma reads them
    __syncwarp();
    if (lane() == 0) ptx::BarrierArrive(&s.full[landed.stage]);
    landed.Advance();
    --pending;
  }
  __device__ void Run(int tiles, int row_tiles) {
    constexpr int kNextTile = 2 * kGroupedStageUnits, kNextEntries = 5 * kGroupedStageUnits;
    const int units = p.weight.units();
    GroupedTile at, next;
    int entries[kRows];
    if (static_cast<int>(blockIdx.x) < tiles) {
      next = GroupedTileAt<G>(p, blockIdx.x, row_tiles);
      LoadEntries(next, entries);
    }
    for (int index = blockIdx.x; index < tiles; index += gridDim.x) {
      at = next;
      Start(at, entries);
      const int next_index = min(index + static_cast<int>(gridDim.x), tiles - 1);
      for (int unit = 0; unit < units; unit += kGroupedStageUnits) {
        Stage(at, unit, units);
        // What the next tile begins with, on its way meanwhile.
        if (unit == kNextTile) next = GroupedTileAt<G>(p, next_index, row_tiles);
        if (unit == kNextEntries) LoadEntries(next, entries);
      }
      if (units <= kNextTile) next = GroupedTileAt<G>(p, next_index, row_tiles);
      if (units <= kNextEntries) LoadEntries(next, entries);
    }
    ptx::CopyAsyncWait<0>();
    while (pending > 0) Land();
  }
};

}  // namespace rose
