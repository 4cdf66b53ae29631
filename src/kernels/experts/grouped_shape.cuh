// Sizes and shared memory of sm90_bf16_moe_gemm_grouped.
#pragma once

#include "kernels/experts/expert_decode.cuh"
#include "kernels/experts/moe_gemm.h"

namespace rose {

inline constexpr int kGroupedStageUnits = 2;

// Sizes of an instance: kIsNarrow for few rows of x, where copying weights is what takes time.
template <Packing kPacking, bool kIsNarrow>
struct Grouped {
  using Unit = ExpertUnit<kPacking>;
  static constexpr int kGroups = kIsNarrow ? 4 : 2;  // warpgroups that multiply
  static constexpr int kThreads = (1 + kGroups) * 128;
  static constexpr int kRowBlocks = kGroups * 64 / PackedExperts::kUnitRows;  // of a tile
  // Rows of x. NOTE: fp8-block needs a third set of sums (chains of 128 columns, chunks, total).
  static constexpr int kMaxTile = kIsNarrow ? 32 : kPacking == Packing::kFp8Block ? 64 : 128;
  static constexpr int kStages = kIsNarrow                     ? 8
                                 : kPacking == Packing::kMxfp4 ? 5
                                 : kPacking == Packing::kBf16  ? 3
                                                               : 6;
  // Stages whose copies a thread of the first warpgroup has pending. NOTE: fewer than there are
  // stages: a stage is given back only once the next one has been seen.
  static constexpr int kInFlight = kIsNarrow ? 6 : kPacking == Packing::kBf16 ? 2 : 3;
  static constexpr int kCopyRegisters = 56;
  static constexpr int kMultiplyRegisters = kIsNarrow ? 104 : 224;

  static constexpr int kRunBytes = kGroupedStageUnits * Unit::kBytes;  // of a row block
  static constexpr int kOutPitch = kGroups * 32 + 8;  // bf16; 16 bytes more spread the banks
  struct alignas(1024) Stage {
    uint8_t x[kGroupedStageUnits][kMaxTile][128];  // swizzled (TileDescriptor)
  };
  struct Shared {
    Stage x[kStages];
    alignas(128) uint8_t weights[kStages][kRowBlocks][kRunBytes];
    alignas(16) Bf16 out[kMaxTile][kOutPitch];  // of a tile's SwiGLU, all warpgroups
    uint64_t full[kStages];                     // 128 arrivals
    uint64_t empty[kStages];                    // the warps that have read
  };
  static_assert(sizeof(Shared) + 1024 <= 227 * 1024, "shared memory of an SM");

  // A place in the ring of stages.
  struct Turn {
    int stage = 0;
    uint32_t parity = 0;
    __device__ void Next() {
      if (++stage == kStages) stage = 0, parity ^= 1;
    }
  };
};

}  // namespace rose
