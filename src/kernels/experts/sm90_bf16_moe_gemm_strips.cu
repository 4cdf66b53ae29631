// Computes  products of experts for few rows: x . weight^T + bias, then SwiGLU rounded to bf16, or
//           the products in f32.
// Work      A CTA takes a contiguous share of all (tile of rows, block of 16 weight rows). Its
//           tasks are the chunks of 512 columns of these blocks; warps take them by turns, decode
//           the weights in registers and multiply them with up to 8 or 16 rows (mma.sync, weights
//           as the M side). Each warp copies its own weights, through a ring of its own. The warp
//           with a block's last chunk, the shortest, adds the chunks up and stores.
// Bound     memory: weights are read once for a tile. 544 bytes a unit of 16 x 64 (mxfp4).
// Requires  cols a multiple of 32; hidden (down) a multiple of 2.
// Measured  on one H200 (2026-11-30, 1980 MHz, graphs over several inputs), 2880 x 2880, mxfp4, top
// 4
//           of 32, gate_up and down with its sum one after the other: 1 token 28.1 us (44 % of 4.3
//           TB/s), 2 tokens 46.6, 8 tokens 98 (66 %), 16 tokens 132 (65 %). Copies are cp.async:
//           the copy engine takes some 120 ns for each bulk copy, which for 2 kB is 2.3 TB/s. One
//           token is bound by latency: three warps a scheduler issue in 46 % of the cycles.
#include <algorithm>

#include "base/check.h"
#include "device/launch.h"
#include "kernels/experts/moe_own_plan.cuh"
#include "kernels/experts/strips.cuh"

namespace rose {
namespace {

constexpr int64_t kSharedBytes = 227 * 1024;

template <Packing kPacking, int kTiles, bool kIsOne>
__global__ void __launch_bounds__((kIsOne ? kWarpsOfOne : kMaxWarps) * 32, kIsOne ? 2 : 1)
    sm90_bf16_moe_gemm_strips_kernel(const __grid_constant__ StripsParams params) {
  extern __shared__ __align__(128) uint8_t shared[];
  const MoeGemmParams& p = params.gemm;
  const bool has_plan = p.plan.tiles != nullptr;
  const auto depend = [] {
    ptx::DependencyWait();
    ptx::DependencyLaunch();
  };
  // NOTE: down does not wait for gate_up before it reads the routing and copies weights. gate_up
  // lets it start only after its own wait, so that the routing is there (launch.h, rule 3).
  const bool is_early = p.activated == nullptr && !has_plan;
  Strips<kPacking, kTiles, kIsOne> strips(params, shared);
  strips.Prepare();
  if (!is_early) depend();
  strips.Begin(has_plan
                   ? p.plan
                   : OwnPlan::At(shared + params.shape.plan_at, p.entry_count, p.weight.experts)
                         .Make(p, params.shape.tile));
  if (is_early) depend();
  strips.Run();
}

int Align(int64_t bytes) {
  return static_cast<int>((bytes + 127) / 128 * 128);
}

bool IsOne(const PackedExperts& weight, int tile, int entries) {
  return weight.packing == Packing::kMxfp4 && tile == 1 && entries <= 8;
}

// The layout for tiles of `tile` rows; its bytes are beyond kSharedBytes if it does not fit.
StripsShape ShapeOf(const PackedExperts& weight, int tile, int entries, bool has_plan) {
  StripsShape s{};
  const int tiles = tile > 8 ? 2 : 1;
  const bool is_one = IsOne(weight, tile, entries), is_short = is_one || tiles > 1;
  s.tile = tile;
  s.x_rows = std::min(std::max(tile, 2), entries);
  s.pitch = weight.units() * kUnitCols * 2 + 16;  // NOTE: + 16 spreads rows over all banks
  s.chunks = (weight.units() + kChunkUnits - 1) / kChunkUnits;
  s.pairs = std::min(4, (tile + 1) / 2);
  s.slot_bits = 3;
  const int stage_bytes = StageUnits(weight.packing, is_short) * UnitBytes(weight.packing);
  const int64_t slot_bytes = int64_t{s.chunks} * tiles * s.pairs * 8 * 16;
  while (s.slot_bits > 0 && slot_bytes << s.slot_bits > 32 * 1024) --s.slot_bits;
  // NOTE: the warp with a chunk of a block must be the one with this chunk of the block that had
  // the slot before. Else it may be two turns of the slot ahead, which its wait cannot tell from
  // none. One token, 2880 columns: 12 warps, which take down's chunks in three rounds (measured).
  s.warps = is_one ? kWarpsOfOne : kMaxWarps;
  while ((s.chunks << s.slot_bits) % s.warps != 0) --s.warps;
  s.step_items = s.warps / s.chunks, s.step_chunks = s.warps % s.chunks;
  s.x_at = 0;
  s.partial_at = Align(int64_t{s.x_rows} * s.pitch);
  s.plan_at = s.partial_at + Align(slot_bytes << s.slot_bits);
  s.barrier_at = s.plan_at + (has_plan ? 0 : Align(OwnPlan::Bytes(entries, weight.experts)));
  s.ring_at = s.barrier_at + Align((1 + (2 << s.slot_bits)) * 8);
  s.bytes = s.ring_at + s.warps * Stages(is_short) * stage_bytes;
  return s;
}

template <Packing kPacking>
void LaunchPacking(const StripsParams& p, int sms, cudaStream_t stream) {
  const auto launch = [&](auto kernel) {
    AllowSharedMemory("sm90_bf16_moe_gemm_strips", kernel, kSharedBytes);
    Launch("sm90_bf16_moe_gemm_strips", kernel,
           {.grid = dim3(static_cast<unsigned>(sms)),
            .block = dim3(static_cast<unsigned>(p.shape.warps * 32)),
            .smem_bytes = static_cast<size_t>(p.shape.bytes),
            .dependent = true},
           stream, p);
  };
  if constexpr (kPacking == Packing::kMxfp4)
    if (IsOne(p.gemm.weight, p.shape.tile, p.gemm.entry_count))
      return launch(sm90_bf16_moe_gemm_strips_kernel<kPacking, 1, true>);
  if (p.shape.tile > 8)
    launch(sm90_bf16_moe_gemm_strips_kernel<kPacking, 2, false>);
  else
    launch(sm90_bf16_moe_gemm_strips_kernel<kPacking, 1, false>);
}

}  // namespace

int StripsTileRows(const PackedExperts& weight, int tokens, int entries) {
  int tile = std::min(tokens, 16);
  entries = std::min(entries, kOwnPlanEntries);
  while (tile > 1 && ShapeOf(weight, tile, entries, false).bytes > kSharedBytes) --tile;
  return tile;
}

void LaunchMoeStrips(const MoeGemmParams& params, int tile, int sms, cudaStream_t stream) {
  const StripsParams p{
      params, ShapeOf(params.weight, tile, params.entry_count, params.plan.tiles != nullptr)};
  ROSE_CHECK(p.shape.bytes <= kSharedBytes, "cols=", params.weight.cols,
             ": one row and two stages of weights do not fit into shared memory");
  switch (params.weight.packing) {
    case Packing::kMxfp4:
      return LaunchPacking<Packing::kMxfp4>(p, sms, stream);
    case Packing::kBf16:
      return LaunchPacking<Packing::kBf16>(p, sms, stream);
    case Packing::kFp8Block:
      return LaunchPacking<Packing::kFp8Block>(p, sms, stream);
  }
}

}  // namespace rose
