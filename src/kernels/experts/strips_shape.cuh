// Sizes of sm90_bf16_moe_gemm_strips and the order of its tasks.
#pragma once

#include "kernels/experts/expert_decode.cuh"
#include "kernels/experts/moe_gemm.h"

namespace rose {

inline constexpr int kUnitCols = PackedExperts::kUnitCols;
inline constexpr int kUnitRows = PackedExperts::kUnitRows;
inline constexpr int kChainUnits = 2;  // fp8-block: one scale for 128 columns

// The instance for one token leaves room for a second CTA: the next kernel's copies start before
// this one ends. The others need the shared memory, and have more registers and warps.
inline constexpr int kWarpsOfOne = 12, kMaxWarps = 16;

// A warp's ring. A stage is a copy of 2 to 4 kB; a chunk is a whole number of stages. Where shared
// memory is short, stages are half as large.
constexpr int StageUnits(Packing packing, bool is_short) {
  if (packing == Packing::kMxfp4) return is_short ? kChunkUnits / 2 : kChunkUnits;
  return packing == Packing::kBf16 ? 2 : 4;
}
constexpr int Stages(bool is_short) {
  return is_short ? 3 : 2;
}

// Units that a lane has in registers at once.
template <Packing kPacking>
constexpr int kBatchUnits = kPacking == Packing::kBf16 ? 2 : 4;

// Sizes of a launch, and where things lie in shared memory (byte offsets).
struct StripsShape {
  int warps, step_items, step_chunks;  // warps = step_items * chunks + step_chunks
  int tile;                            // rows of a tile at most
  int x_rows;                          // that fit, at least `tile`
  int pitch;                           // bytes of a row of x
  int chunks;                          // of a block
  int pairs;                           // of neighbouring rows of a tile that lanes hold, 1 to 4
  int slot_bits;                       // 2^slot_bits blocks may have sums that are not added up
  int x_at, partial_at, plan_at, barrier_at, ring_at;
  int bytes;
};

struct StripsParams {
  MoeGemmParams gemm;
  StripsShape shape;
};

// A chunk of a block. A warp's tasks are every s.warps-th chunk of the CTA's blocks.
struct Task {
  int item;  // tile * blocks + block
  int tile, block;
  int chunk;

  __device__ void Advance(int items, int by_chunks, int chunks, int blocks) {
    chunk += by_chunks;
    if (chunk >= chunks) chunk -= chunks, ++items;
    item += items;
    for (block += items; block >= blocks; block -= blocks) ++tile;
  }
};

}  // namespace rose
