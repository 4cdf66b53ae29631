// Sizes and shared memory of sm90_bf16_moe_gemm_grouped.
#pragma once

#include <cuda.h>

#include "kernels/common/ring_place.cuh"
#include "kernels/experts/expert_decode.cuh"
#include "kernels/experts/moe_gemm.h"

namespace rose {

inline constexpr int kGroupedStageUnits = 2;

struct GroupedParams {
  MoeGemmParams gemm;
  CUtensorMap weight_map;  // rows are row blocks of all experts; boxes of a tile's, one unit each
};

// Sizes of an instance. Narrow: copying weights is what takes time.
template <Packing kPacking, GroupedTiles kTiles>
struct Grouped {
  using Unit = ExpertUnit<kPacking>;
  static constexpr bool kIsNarrow = kTiles == GroupedTiles::kNarrow;
  static constexpr bool kIsMxfp4 = kPacking == Packing::kMxfp4;
  static_assert(kIsMxfp4 || !kIsNarrow);
  static constexpr int kGroups = kIsNarrow ? 4 : kIsMxfp4 ? 3 : 2;  // warpgroups that multiply
  static constexpr int kThreads = (1 + kGroups) * 128;
  static constexpr int kRowBlocks = kGroups * 64 / PackedExperts::kUnitRows;  // of a tile
  // Rows of x. NOTE: fp8-block needs a third set of sums (chains of 128 columns, chunks, total).
  static constexpr int kMaxTile = kIsNarrow                        ? 32
                                  : kIsMxfp4                       ? 96
                                  : kPacking == Packing::kFp8Block ? 64
                                                                   : 128;
  static constexpr int kStages = kIsNarrow                        ? 8
                                 : kIsMxfp4                       ? 5
                                 : kPacking == Packing::kFp8Block ? 6
                                                                  : 3;
  // Stages whose copies a thread of the first warpgroup has pending. NOTE: fewer than there are
  // stages: a stage is given back only once the next one has been seen. And a stage is announced
  // only behind the copies of so many: with all but one pending, products wait (5 %).
  static constexpr int kInFlight = kIsNarrow ? 6 : kPacking == Packing::kBf16 ? 2 : 3;
  static constexpr int kCopyRegisters = kIsMxfp4 ? 56 : 72;
  static constexpr int kMultiplyRegisters = kIsNarrow ? 104 : kIsMxfp4 ? 152 : 216;

  static constexpr int kOutPitch = kGroups * 32 + 8;  // bf16; 16 bytes more spread the banks
  struct alignas(1024) Stage {
    uint8_t x[kGroupedStageUnits][kMaxTile][128];  // swizzled (TileDescriptor)
  };
  struct Shared {
    Stage x[kStages];
    alignas(128) uint8_t weights[kStages][kGroupedStageUnits][kRowBlocks][Unit::kBytes];
    alignas(16) Bf16 out[kMaxTile][kOutPitch];  // of a tile's SwiGLU, all warpgroups
    uint64_t full[kStages];   // the copying warps, and the thread that copies weights
    uint64_t empty[kStages];  // the warps that have read
  };
  static_assert(sizeof(Shared) + 1024 <= 227 * 1024, "shared memory of an SM");

  using Turn = RingPlace<kStages>;
};

struct GroupedTile {
  MoeTile tile;
  int row_block;  // first of the tile's rows of weights
};

template <typename G>
__device__ GroupedTile GroupedTileAt(const MoeGemmParams& p, int index, int row_tiles) {
  return {p.plan.tiles[index / row_tiles], index % row_tiles * G::kRowBlocks};
}

}  // namespace rose
