// Computes  products of experts for many rows: x . weight^T + bias, then SwiGLU rounded to bf16, or
//           the products in f32. Sums are those of the other variants, bit for bit: wgmma and
//           mma.sync agree where k16 steps are the same, and chunks of 512 columns are added up in
//           the same order.
// Work      A CTA of three warpgroups walks over tiles of 128 weight rows x up to kMaxTile rows of
// x
//           that go to one expert. The first warpgroup copies: rows of x by 16-byte copies (they
//           lie apart), weights in bulk. The others take 64 weight rows each, decode them in
//           registers (the M side of wgmma) and keep the sums.
// Bound     compute: 2 * 128 * tile FLOP a column and tile. Decoding hides behind wgmma from 128
// rows
//           of x on; fewer cost as much as 64 to 128.
// Requires  cols a multiple of 32, rows a multiple of 2.
// Measured  on one H200 (2026-11-30, 1980 MHz, medians of graphs over several inputs; a program of
//           checks and timings that is not kept), 2880 x 2880, top 4: 32 experts at 8192 tokens
//           gate_up 431, down with its sum 359 TFLOP/s, at 1024 309 and 252; 128 experts at 8192
//           377 and 315; up to 256 tokens about 1.1 TB/s of weights.
#include "base/check.h"
#include "device/launch.h"
#include "kernels/common/ptx/bulk_copy.cuh"
#include "kernels/common/ptx/warpgroup.cuh"
#include "kernels/common/ptx/wgmma.cuh"
#include "kernels/experts/grouped_shape.cuh"
#include "kernels/experts/moe_gemm.h"
#include "kernels/experts/moe_math.cuh"

namespace rose {
namespace {

constexpr int kStageUnits = kGroupedStageUnits;
constexpr int kUnitCols = PackedExperts::kUnitCols;

struct TileAt {
  MoeTile tile;
  int row_block;  // first of the tile's rows of weights
};

template <typename G>
__device__ TileAt TileOf(const MoeGemmParams& p, int index, int row_tiles) {
  return {p.plan.tiles[index / row_tiles], index % row_tiles * G::kRowBlocks};
}

// The first warpgroup: fills stages for all tiles of the CTA.
//
// NOTE: all in copies of 16 bytes. Bulk copies of a row block's part of a stage (1 kB) would take
// turns of 120 ns each, whoever issues them (measured): 1.1 TB/s.
template <typename G>
__device__ void Copy(const MoeGemmParams& p, typename G::Shared& s, int tiles, int row_tiles) {
  constexpr int kRows = G::kMaxTile / 16;  // of x, for a thread
  constexpr int kRunPieces = G::kRunBytes / 16, kPieces = G::kRowBlocks * kRunPieces;
  const int thread = static_cast<int>(threadIdx.x), piece = thread % 8, first_row = thread / 8;
  const int units = p.weight.units(), row_blocks = p.weight.row_blocks();
  typename G::Turn turn, landed;
  int pending = 0;
  const auto land = [&] {
    ptx::FenceAsync();  // this thread's rows before wgmma reads them
    ptx::BarrierArrive(&s.full[landed.stage]);
    landed.Next();
  };
  for (int index = blockIdx.x; index < tiles; index += gridDim.x) {
    const TileAt at = TileOf<G>(p, index, row_tiles);
    uint32_t from[kRows];  // 16-byte pieces from x to this thread's in column 0
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int row = first_row + 16 * i;
      const int entry = row < at.tile.count ? p.plan.entries[at.tile.first + row] : 0;
      from[i] = static_cast<uint32_t>(entry / p.x_divisor) * (p.weight.cols / 8) + piece;
    }
    const int blocks = min(G::kRowBlocks, row_blocks - at.row_block);
    const uint8_t* weights = p.weight.data + (int64_t{at.tile.expert} * row_blocks + at.row_block) *
                                                 units * G::Unit::kBytes;
    for (int unit = 0; unit < units; unit += kStageUnits) {
      ptx::BarrierWait(&s.empty[turn.stage], turn.parity ^ 1);  // all warps have read the stage
      const int run_pieces = min(kStageUnits, units - unit) * (G::Unit::kBytes / 16);
      const uint32_t weights_to = ptx::SharedAddress(s.weights[turn.stage][0]) + thread * 16;
#pragma unroll 5
      for (int i = 0; i < (kPieces + 127) / 128; ++i) {
        const int block = (thread + i * 128) / kRunPieces;
        const int of_run = (thread + i * 128) % kRunPieces;
        if (block < blocks && of_run < run_pieces)
          ptx::CopyAsync16(weights_to + i * 128 * 16,
                           weights + block * units * G::Unit::kBytes + of_run * 16,
                           /*is_inside=*/true);
      }
      weights += G::kRunBytes;
#pragma unroll 1
      for (int u = 0; u < kStageUnits; ++u) {
        const uint32_t pieces = (unit + u) * (kUnitCols / 8);
        const bool is_inside = static_cast<int>(pieces) + piece < p.weight.cols / 8;
        const uint32_t to = ptx::SharedAddress(s.x[turn.stage].x[u]) + first_row * 128 +
                            (piece ^ first_row % 8) * 16;
        const auto* x = reinterpret_cast<const uint4*>(p.x) + (is_inside ? pieces : 0);
#pragma unroll
        for (int i = 0; i < kRows; ++i)
          if (first_row + 16 * i < at.tile.count)
            ptx::CopyAsync16(to + i * 16 * 128, x + from[i], is_inside);
      }
      ptx::CopyAsyncCommit();
      turn.Next();
      if (++pending < G::kInFlight) continue;
      ptx::CopyAsyncWait<G::kInFlight - 1>();  // the oldest pending stage is there
      land();
      --pending;
    }
  }
  ptx::CopyAsyncWait<0>();
  for (; pending > 0; --pending) land();
}

// One warpgroup's walk over the stages of a tile: 64 rows of weights x kN rows of x.
//
// NOTE: ptxas keeps products in flight only where it sees which registers they read: whole chunks
// are unrolled, and what remains of a row goes unit by unit.
template <typename G, int kN>
struct Multiplier {
  using Unit = typename G::Unit;
  typename G::Shared& s;
  typename G::Turn& turn;
  int row_block;  // of the tile's, this warp's
  int lane;
  uint32_t a[2][4][4];  // the fragments of two units
  float chain[kN / 2];
  float scales[2];

  __device__ void Decode(int u, int slot) {
    Unit w;
    w.Load(ptx::SharedAddress(s.weights[turn.stage][row_block]) + u * Unit::kBytes, lane);
    w.Fragment(0, a[slot][0], a[slot][1]);
    w.Fragment(1, a[slot][2], a[slot][3]);
    if constexpr (Unit::kChainScales) scales[0] = w.scales[0], scales[1] = w.scales[1];
  }
  __device__ void Issue(int u, int slot, bool starts) {
    const uint64_t x = ptx::TileDescriptor(s.x[turn.stage].x[u]);
    ptx::ProductFence();
#pragma unroll
    for (int step = 0; step < 4; ++step)
      ptx::WarpgroupProduct<kN>::Registers(chain, a[slot][step], x + 2 * step,
                                           !(starts && step == 0));
    ptx::ProductCommit();
  }
  __device__ void Await() { ptx::BarrierWait(&s.full[turn.stage], turn.parity); }
  // This warp and its products have read the stage.
  __device__ void Release(int stage) {
    if (lane == 0) ptx::BarrierArrive(&s.empty[stage]);
  }

  // A chunk of kChunkUnits units in one chain.
  __device__ void Chunk() {
    int before = 0;
#pragma unroll
    for (int unit = 0; unit < kChunkUnits; ++unit) {
      const int u = unit % kStageUnits;
      if (u == 0) Await();  // rows and weights are there
      Decode(u, u);
      Issue(u, u, unit == 0);
      if (u == 0 && unit > 0) {
        ptx::ProductWait<1>();  // the stage before is done with
        Release(before);
      } else {
        ptx::ProductWait<1>();  // the other slot's registers are free
      }
      if (u == kStageUnits - 1) {
        before = turn.stage;
        turn.Next();
      }
    }
    ptx::ProductWait<0>();
    Release(before);
  }
  // `units` units in one chain, one after the other.
  __device__ void Rest(int units) {
    for (int unit = 0; unit < units; ++unit) {
      const int u = unit % kStageUnits;
      if (u == 0) Await();
      Decode(u, 0);
      Issue(u, 0, unit == 0);
      ptx::ProductWait<0>();
      if (u < kStageUnits - 1 && unit < units - 1) continue;
      Release(turn.stage);
      turn.Next();
    }
  }
};

// The sums of a warpgroup, as WarpgroupProduct holds them: chunks of 512 columns, added ascending.
template <typename G, int kN>
__device__ void Multiply(const MoeGemmParams& p, typename G::Shared& s, typename G::Turn& turn,
                         float (&sum)[kN / 2]) {
  Multiplier<G, kN> m{s, turn, static_cast<int>(threadIdx.x / 32) - 4,
                      static_cast<int>(threadIdx.x % 32)};
  const int units = p.weight.units();
  for (int begin = 0; begin < units; begin += kChunkUnits) {
    const int count = min(kChunkUnits, units - begin);
    if constexpr (G::Unit::kChainScales) {
      float part[kN / 2] = {};
      for (int unit = 0; unit < count; unit += kStageUnits) {
        m.Rest(min(kStageUnits, count - unit));
#pragma unroll
        for (int i = 0; i < kN / 2; ++i)
          part[i] = __fmaf_rn(m.scales[i / 2 % 2], m.chain[i], part[i]);
      }
#pragma unroll
      for (int i = 0; i < kN / 2; ++i) sum[i] = begin == 0 ? part[i] : sum[i] + part[i];
    } else {
      if (count == kChunkUnits)
        m.Chunk();
      else
        m.Rest(count);
#pragma unroll
      for (int i = 0; i < kN / 2; ++i) sum[i] = begin == 0 ? m.chain[i] : sum[i] + m.chain[i];
    }
  }
}

// One tile of two warpgroups: products, bias, and what is stored.
template <typename G, int kN>
__device__ void RunTile(const MoeGemmParams& p, typename G::Shared& s, typename G::Turn& turn,
                        const TileAt& at) {
  float sum[kN / 2];
  Multiply<G, kN>(p, s, turn, sum);
  const int group = static_cast<int>(threadIdx.x / 128) - 1;
  const int thread = static_cast<int>(threadIdx.x % 128), lane = thread % 32;
  const int row_block = at.row_block + group * 4 + thread / 32;
  const int row = row_block * PackedExperts::kUnitRows + lane / 4 * 2;
  const bool has_row = row < p.weight.rows;
  const float first_bias = has_row ? MoeBias(p, at.tile.expert, row) : 0.0f;
  const float second_bias = has_row ? MoeBias(p, at.tile.expert, row + 1) : 0.0f;
  if (p.activated == nullptr) {
#pragma unroll
    for (int i = 0; i < kN / 4; ++i) {
      const int column = i / 2 * 8 + lane % 4 * 2 + i % 2, k = i / 2 * 4 + i % 2;
      if (column >= at.tile.count || !has_row) continue;
      const int64_t entry = p.plan.entries[at.tile.first + column];
      __stcg(reinterpret_cast<float2*>(p.products + entry * p.weight.rows + row),
             {sum[k] + first_bias, sum[k + 2] + second_bias});
    }
    return;
  }
  ptx::NamedBarrier(1 + group, 128);  // the warpgroup has stored its tile before
#pragma unroll
  for (int i = 0; i < kN / 4; ++i) {
    const int column = i / 2 * 8 + lane % 4 * 2 + i % 2, k = i / 2 * 4 + i % 2;
    s.out[column][group * 32 + thread / 32 * 8 + lane / 4] =
        MoeActivate(p, sum[k] + first_bias, sum[k + 2] + second_bias);
  }
  ptx::NamedBarrier(1 + group, 128);  // all of the warpgroup's values are there
  const int inter = p.weight.rows / 2;
  const int to = at.row_block * PackedExperts::kUnitRows / 2 + group * 32 + thread % 4 * 8;
  if (to >= inter) return;
  for (int column = thread / 4; column < at.tile.count; column += 32) {
    const int64_t entry = p.plan.entries[at.tile.first + column];
    *reinterpret_cast<uint4*>(p.activated + entry * inter + to) =
        *reinterpret_cast<const uint4*>(&s.out[column][group * 32 + thread % 4 * 8]);
  }
}

template <Packing kPacking, bool kIsNarrow>
__global__ void __launch_bounds__((Grouped<kPacking, kIsNarrow>::kThreads), 1)
    sm90_bf16_moe_gemm_grouped_kernel(const __grid_constant__ MoeGemmParams p) {
  using G = Grouped<kPacking, kIsNarrow>;
  extern __shared__ uint8_t memory[];
  auto& s = *reinterpret_cast<typename G::Shared*>(
      memory + (1024 - ptx::SharedAddress(memory) % 1024) % 1024);
  if (threadIdx.x == 0) {
    for (int i = 0; i < G::kStages; ++i) {
      ptx::BarrierInit(&s.full[i], 128);
      ptx::BarrierInit(&s.empty[i], 4 * G::kGroups);
    }
    ptx::BarriersReady();
  }
  __syncthreads();  // all see the barriers
  ptx::DependencyWait();
  ptx::DependencyLaunch();
  const int row_tiles = (p.weight.row_blocks() + G::kRowBlocks - 1) / G::kRowBlocks;
  const int tiles = *p.plan.tile_count * row_tiles;
  if (threadIdx.x < 128) {
    ptx::RegistersDown<G::kCopyRegisters>();
    Copy<G>(p, s, tiles, row_tiles);
    return;
  }
  ptx::RegistersUp<G::kMultiplyRegisters>();
  typename G::Turn turn;
  for (int index = blockIdx.x; index < tiles; index += gridDim.x) {
    const TileAt at = TileOf<G>(p, index, row_tiles);
    if (at.tile.count <= 16)
      RunTile<G, 16>(p, s, turn, at);
    else if (kIsNarrow || at.tile.count <= 32)
      RunTile<G, 32>(p, s, turn, at);
    else if constexpr (!kIsNarrow) {
      if (G::kMaxTile == 64 || at.tile.count <= 64)
        RunTile<G, 64>(p, s, turn, at);
      else
        RunTile<G, G::kMaxTile>(p, s, turn, at);
    }
  }
}

template <Packing kPacking, bool kIsNarrow>
void LaunchPacking(const MoeGemmParams& p, int sms, cudaStream_t stream) {
  using G = Grouped<kPacking, kIsNarrow>;
  constexpr int kBytes = sizeof(typename G::Shared) + 1024;
  const auto kernel = sm90_bf16_moe_gemm_grouped_kernel<kPacking, kIsNarrow>;
  AllowSharedMemory("sm90_bf16_moe_gemm_grouped", kernel, kBytes);
  Launch("sm90_bf16_moe_gemm_grouped", kernel,
         {.grid = dim3(static_cast<unsigned>(sms)),
          .block = dim3(G::kThreads),
          .smem_bytes = kBytes,
          .dependent = true},
         stream, p);
}

}  // namespace

int GroupedTileRows(Packing packing, bool is_narrow) {
  switch (packing) {
    case Packing::kMxfp4:
      return is_narrow ? Grouped<Packing::kMxfp4, true>::kMaxTile
                       : Grouped<Packing::kMxfp4, false>::kMaxTile;
    case Packing::kBf16:
      return Grouped<Packing::kBf16, false>::kMaxTile;
    case Packing::kFp8Block:
      return Grouped<Packing::kFp8Block, false>::kMaxTile;
  }
  ROSE_CHECK(false, "packing ", static_cast<int>(packing));
  return 0;
}

void LaunchMoeGrouped(const MoeGemmParams& params, bool is_narrow, int sms, cudaStream_t stream) {
  ROSE_CHECK(params.plan.tiles != nullptr, "the grouped kernel needs a plan");
  switch (params.weight.packing) {
    case Packing::kMxfp4:
      return is_narrow ? LaunchPacking<Packing::kMxfp4, true>(params, sms, stream)
                       : LaunchPacking<Packing::kMxfp4, false>(params, sms, stream);
    case Packing::kBf16:
      return LaunchPacking<Packing::kBf16, false>(params, sms, stream);
    case Packing::kFp8Block:
      return LaunchPacking<Packing::kFp8Block, false>(params, sms, stream);
  }
}

}  // namespace rose
