// What the kernels of this folder share: one product of experts, and the plan of its rows.
#pragma once

#include "kernels/experts/experts.h"

namespace rose {

// Rows of one expert that are computed together.
struct MoeTile {
  int expert;
  int first;  // index into MoePlan::entries
  int count;
};

// A step's uses of experts: entry = token * experts_per_token + slot.
struct MoePlan {
  const int* entries;    // [tokens * experts_per_token], by expert, then ascending
  const MoeTile* tiles;  // by expert
  const int* tile_count;
};

struct MoeGemmParams {
  const Bf16* x;  // row of an entry: entry / x_divisor
  int x_divisor;
  const int32_t* experts;  // [entries]
  PackedExperts weight;
  const Bf16* bias;  // [experts, rows], or null
  int entry_count;
  int experts_per_token;
  MoePlan plan;  // null pointers: a CTA makes its own

  // gate_up: activated [entries, rows / 2]
  Bf16* activated;
  float limit, alpha, up_offset;
  // down (activated is null): products [entries, rows] with bias; LaunchMoeSum follows.
  float* products;
  const float* weights;  // [entries]
  Bf16* out;             // [tokens, rows]
};

// Plans of more entries than this are made by a kernel of their own.
inline constexpr int kOwnPlanEntries = 512;
inline constexpr int kOwnPlanExperts = 512;

// Memory of a plan in a workspace.
struct MoePlanMemory {
  int* entries;
  MoeTile* tiles;
  int* tile_count;
};
int64_t MoePlanBytes(int64_t entries, int experts);
MoePlanMemory MoePlanAt(void* workspace, int64_t entries, int experts);

struct MoePlanParams {
  const int32_t* experts;  // [entries]
  int entries;
  int expert_count;
  int tile;  // most entries of a tile
  MoePlanMemory out;
};
void LaunchMoePlan(const MoePlanParams& params, cudaStream_t stream);

// out = sum over a token's slots, ascending, of weights * products, rounded once.
void LaunchMoeSum(const MoeGemmParams& params, cudaStream_t stream);

// The two variants, in `sms` CTAs. Rows of a tile are the kernel's choice.
int StripsTileRows(const PackedExperts& weight, int tokens, int entries);
// Instances of the grouped kernel, by rows of a tile (mxfp4; the others have the last one alone).
enum class GroupedTiles { kNarrow, kWide };
int GroupedTileRows(Packing packing, GroupedTiles tiles);
void LaunchMoeGrouped(const MoeGemmParams& params, GroupedTiles tiles, int sms,
                      cudaStream_t stream);
void LaunchMoeStrips(const MoeGemmParams& params, int tile, int sms, cudaStream_t stream);

}  // namespace rose
