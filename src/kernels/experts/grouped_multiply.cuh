// The products of sm90_bf16_moe_gemm_grouped.
#pragma once

#include <algorithm>

#include "kernels/common/ptx/bulk_copy.cuh"
#include "kernels/common/ptx/warpgroup.cuh"
#include "kernels/common/ptx/wgmma.cuh"
#include "kernels/experts/grouped_shape.cuh"

namespace rose {

// One warpgroup's walk over the stages of a tile: 64 rows of weights x kN rows of x. A unit is two
// groups of products, each of two k16 steps; one is in flight while the next is decoded.
//
// NOTE: ptxas keeps products in flight only where it sees which registers they read: whole chunks
// are unrolled, and what remains of a row, but for gpt-oss's, goes part by part.
template <typename G, int kN>
struct Multiplier {
  using Unit = typename G::Unit;
  typename G::Shared& s;
  typename G::Turn& turn;
  int row_block;  // of the tile's, this warp's
  int lane;
  uint32_t a[2][2][4];  // the fragments of a unit's parts
  Unit unit;
  float chain[kN / 2];

  __device__ void Await() { ptx::BarrierWait(&s.full[turn.stage], turn.parity); }
  // This warp and its products have read the stage.
  __device__ void Release(int stage) {
    if (lane == 0) ptx::BarrierArrive(&s.empty[stage]);
  }
  __device__ void Load(int u) {
    unit.Load(ptx::SharedAddress(s.weights[turn.stage][u][row_block]), lane);
  }
  __device__ void Decode(int part) { unit.Fragment(part, a[part][0], a[part][1]); }
  __device__ void Issue(int u, int part, bool starts) {
    // NOTE: the tile is a multiple of 1024, so that columns are bits of their own.
    const uint64_t x = ptx::TileDescriptor(s.x[turn.stage].x[u]);
    ptx::ProductFence();
    ptx::WarpgroupProduct<kN>::Registers(chain, a[part][0], x | (4 * part), !starts);
    ptx::WarpgroupProduct<kN>::Registers(chain, a[part][1], x | (4 * part + 2), true);
    ptx::ProductCommit();
  }

  // Before a tile's first chunk, if it is unrolled.
  __device__ void Begin() {
    Await();
    Load(0);
    Decode(0);
  }
  // An unrolled chunk of kUnits units in one chain; begins with a stage. Codes are loaded ahead,
  // and the next chunk's first part is decoded while the last products run: `more` says that it is
  // unrolled, too. NOTE: for units that are decoded; products in flight would read the registers of
  // `unit` itself of others.
  template <int kUnits>
  __device__ void Chunk(bool more) {
    int before = 0;  // the stage that was finished last
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const int u = i % kGroupedStageUnits;
      if (i > 0) Decode(0);
      Issue(u, 0, i == 0);
      ptx::ProductWait<1>();  // the other part's registers are free, the stage before is done with
      if (u == 0 && i > 0) Release(before);
      Decode(1);
      Issue(u, 1, false);
      if (u == kGroupedStageUnits - 1 || i == kUnits - 1) {
        before = turn.stage;
        turn.Advance();
        if (i < kUnits - 1) Await();
      }
      if (i < kUnits - 1) Load((i + 1) % kGroupedStageUnits);
      if (i == kUnits - 1 && more) {
        Await();
        Load(0);
      }
      ptx::ProductWait<1>();
    }
    if (more) Decode(0);
    ptx::ProductWait<0>();
    Release(before);
  }
  // `units` units in one chain, one after the other.
  __device__ void Rest(int units) {
    for (int i = 0; i < units; ++i) {
      const int u = i % kGroupedStageUnits;
      if (u == 0) Await();
      Load(u);
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        Decode(part);
        Issue(u, part, i == 0 && part == 0);
      }
      ptx::ProductWait<0>();
      if (u < kGroupedStageUnits - 1 && i < units - 1) continue;
      Release(turn.stage);
      turn.Advance();
    }
  }
};

// Units of the last chunk of gpt-oss's 2880 columns.
inline constexpr int kLastUnits = 2880 / PackedExperts::kUnitCols % kChunkUnits;
__device__ inline bool IsUnrolled(int units) {
  return units == kChunkUnits || units == kLastUnits;
}

// The sums of a warpgroup, as WarpgroupProduct holds them: chunks of 512 columns, added ascending.
template <typename G, int kN>
__device__ void Multiply(const MoeGemmParams& p, typename G::Shared& s, typename G::Turn& turn,
                         float (&sum)[kN / 2]) {
  Multiplier<G, kN> m{s, turn, static_cast<int>(threadIdx.x / 32) - 4,
                      static_cast<int>(threadIdx.x % 32)};
#pragma unroll
  for (float& value : sum) value = -0.0f;  // the one number that changes no other, +0 either
  const int units = p.weight.units();
  for (int begin = 0; begin < units; begin += kChunkUnits) {
    const int count = min(kChunkUnits, units - begin);
    if constexpr (G::Unit::kChainScales) {
      float part[kN / 2] = {};
      for (int unit = 0; unit < count; unit += kGroupedStageUnits) {
        m.Rest(min(kGroupedStageUnits, count - unit));
#pragma unroll
        for (int i = 0; i < kN / 2; ++i)
          part[i] = __fmaf_rn(m.unit.scales[i / 2 % 2], m.chain[i], part[i]);
      }
#pragma unroll
      for (int i = 0; i < kN / 2; ++i) sum[i] += part[i];
    } else {
      if constexpr (!G::Unit::kIsDecoded) {
        m.Rest(count);
      } else {
        const int after = min(kChunkUnits, units - begin - count);  // units of the next chunk
        if (begin == 0 && IsUnrolled(count)) m.Begin();
        if (count == kChunkUnits)
          m.template Chunk<kChunkUnits>(IsUnrolled(after));
        else if (count == kLastUnits)
          m.template Chunk<kLastUnits>(false);
        else
          m.Rest(count);
      }
#pragma unroll
      for (int i = 0; i < kN / 2; ++i) sum[i] += m.chain[i];
    }
  }
}

}  // namespace rose
