// Computes  products of experts for many rows: x . weight^T + bias, then SwiGLU rounded to bf16, or
//           the products in f32. Sums are those of the other variants, bit for bit: wgmma and
//           mma.sync agree where k16 steps are the same, and chunks of 512 columns are added up in
//           the same order.
// Work      A CTA walks over tiles: rows of weights of one expert x rows of x that go to it. One
//           warpgroup copies (Copier), the others take 64 weight rows each, decode them in
//           registers (the M side of wgmma) and keep the sums (Multiplier). mxfp4: 192 x 96, or 256
//           x 32 for few rows.
// Bound     the instructions of decoding and of SwiGLU beside wgmma, then the power cap.
// Requires  cols a multiple of 32, rows a multiple of 2.
// Measured  on one H200 (2026-11-30, medians of graphs with plan and sum over several inputs; a
//           program that is not kept), 2880 x 2880, top 4, 8192 tokens: 32 experts gate_up 1752 us
//           = 620 TFLOP/s, down 1034 us = 526 (931 us without the sum); 128 experts 1919 us = 566
//           and 1121 us = 485. At 64 tokens 99 and 55 us (32 experts), 313 and 174 us (128). NOTE:
//           RunTile must be inlined: across a call ptxas waits for each product.
#include "base/check.h"
#include "device/launch.h"
#include "device/tensor_map.h"
#include "kernels/experts/grouped_copy.cuh"
#include "kernels/experts/grouped_multiply.cuh"
#include "kernels/experts/moe_gemm.h"
#include "kernels/experts/moe_math.cuh"

namespace rose {
namespace {

// One tile of a CTA: products, bias, and what is stored.
template <typename G, int kN>
__device__ __forceinline__ void RunTile(const MoeGemmParams& p, typename G::Shared& s,
                                        typename G::Turn& turn, const GroupedTile& at) {
  constexpr int kEntries = (kN + 31) / 32;
  const int group = static_cast<int>(threadIdx.x / 128) - 1;
  const int thread = static_cast<int>(threadIdx.x % 128), lane = thread % 32;
  const int row_block = at.row_block + group * 4 + thread / 32;
  const int row = row_block * PackedExperts::kUnitRows + lane / 4 * 2;
  const bool has_row = row < p.weight.rows;
  // What the end of the tile needs, on its way while products run. Entries: of columns 32 i + lane
  // for sums that are stored as they are, 32 i + thread / 4 for rows of the activated.
  int entries[kEntries];
#pragma unroll
  for (int i = 0; i < kEntries; ++i) {
    const int column = 32 * i + (p.activated == nullptr ? lane : thread / 4);
    entries[i] = column < at.tile.count ? p.plan.entries[at.tile.first + column] : -1;
  }
  uint32_t bias = 0;
  if (p.bias != nullptr && has_row)
    bias =
        *reinterpret_cast<const uint32_t*>(p.bias + int64_t{at.tile.expert} * p.weight.rows + row);

  float sum[kN / 2];
  Multiply<G, kN>(p, s, turn, sum);
  const float first_bias = __uint_as_float(bias << 16);
  const float second_bias = __uint_as_float(bias & 0xffff0000);
  if (p.activated == nullptr) {
    float* to = p.products + row;
#pragma unroll
    for (int i = 0; i < kN / 4; ++i) {
      const int column = i / 2 * 8 + lane % 4 * 2 + i % 2, k = i / 2 * 4 + i % 2;
      const int entry = __shfl_sync(~0u, entries[i / 8], column % 32);
      if (entry < 0 || !has_row) continue;
      __stcg(reinterpret_cast<float2*>(to + int64_t{entry} * p.weight.rows),
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
#pragma unroll
  for (int i = 0; i < kEntries; ++i) {
    const int column = 32 * i + thread / 4;
    if (entries[i] < 0) continue;
    *reinterpret_cast<uint4*>(p.activated + int64_t{entries[i]} * inter + to) =
        *reinterpret_cast<const uint4*>(&s.out[column][group * 32 + thread % 4 * 8]);
  }
}

// RunTile for the smallest kN that the tile fits in.
template <typename G, int kN, int... kLarger>
__device__ __forceinline__ void RunFitting(const MoeGemmParams& p, typename G::Shared& s,
                                           typename G::Turn& turn, const GroupedTile& at) {
  if constexpr (kN >= G::kMaxTile) {
    RunTile<G, kN>(p, s, turn, at);
  } else {
    if (at.tile.count <= kN)
      RunTile<G, kN>(p, s, turn, at);
    else
      RunFitting<G, kLarger...>(p, s, turn, at);
  }
}

template <Packing kPacking, GroupedTiles kTiles>
__global__ void __launch_bounds__((Grouped<kPacking, kTiles>::kThreads), 1)
    sm90_bf16_moe_gemm_grouped_kernel(const __grid_constant__ GroupedParams params) {
  using G = Grouped<kPacking, kTiles>;
  const MoeGemmParams& p = params.gemm;
  extern __shared__ uint8_t memory[];
  auto& s = *reinterpret_cast<typename G::Shared*>(
      memory + (1024 - ptx::SharedAddress(memory) % 1024) % 1024);
  if (threadIdx.x == 0) {
    for (int i = 0; i < G::kStages; ++i) {
      ptx::BarrierInit(&s.full[i], 5);
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
    Copier<G>{p, params.weight_map, s}.Run(tiles, row_tiles);
    return;
  }
  ptx::RegistersUp<G::kMultiplyRegisters>();
  typename G::Turn turn;
  for (int index = blockIdx.x; index < tiles; index += gridDim.x)
    RunFitting<G, 16, 32, 64, 96, 128>(p, s, turn, GroupedTileAt<G>(p, index, row_tiles));
}

template <Packing kPacking, GroupedTiles kTiles>
void LaunchInstance(const MoeGemmParams& p, int sms, cudaStream_t stream) {
  using G = Grouped<kPacking, kTiles>;
  constexpr int kBytes = sizeof(typename G::Shared) + 1024;
  const auto kernel = sm90_bf16_moe_gemm_grouped_kernel<kPacking, kTiles>;
  const ByteBox weights{.data = p.weight.data,
                        .rows = int64_t{p.weight.experts} * p.weight.row_blocks(),
                        .row_bytes = int64_t{p.weight.units()} * G::Unit::kBytes,
                        .box_rows = G::kRowBlocks,
                        .box_bytes = G::Unit::kBytes};
  AllowSharedMemory("sm90_bf16_moe_gemm_grouped", kernel, kBytes);
  Launch("sm90_bf16_moe_gemm_grouped", kernel,
         {.grid = dim3(static_cast<unsigned>(sms)),
          .block = dim3(G::kThreads),
          .smem_bytes = kBytes,
          .dependent = true},
         stream, GroupedParams{p, MapBytes(weights)});
}

template <GroupedTiles kTiles>
constexpr int kMxfp4Rows = Grouped<Packing::kMxfp4, kTiles>::kMaxTile;

}  // namespace

int GroupedTileRows(Packing packing, GroupedTiles tiles) {
  if (packing == Packing::kBf16) return Grouped<Packing::kBf16, GroupedTiles::kWide>::kMaxTile;
  if (packing == Packing::kFp8Block)
    return Grouped<Packing::kFp8Block, GroupedTiles::kWide>::kMaxTile;
  return tiles == GroupedTiles::kNarrow ? kMxfp4Rows<GroupedTiles::kNarrow>
                                        : kMxfp4Rows<GroupedTiles::kWide>;
}

void LaunchMoeGrouped(const MoeGemmParams& params, GroupedTiles tiles, int sms,
                      cudaStream_t stream) {
  ROSE_CHECK(params.plan.tiles != nullptr, "the grouped kernel needs a plan");
  if (params.weight.packing == Packing::kBf16)
    return LaunchInstance<Packing::kBf16, GroupedTiles::kWide>(params, sms, stream);
  if (params.weight.packing == Packing::kFp8Block)
    return LaunchInstance<Packing::kFp8Block, GroupedTiles::kWide>(params, sms, stream);
  switch (tiles) {
    case GroupedTiles::kNarrow:
      return LaunchInstance<Packing::kMxfp4, GroupedTiles::kNarrow>(params, sms, stream);
    case GroupedTiles::kWide:
      return LaunchInstance<Packing::kMxfp4, GroupedTiles::kWide>(params, sms, stream);
  }
}

}  // namespace rose
