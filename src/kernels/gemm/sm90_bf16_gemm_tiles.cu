// Computes  out = x . weight^T + bias  for many tokens, in the order that gemm.h gives.
// Work      a CTA makes tiles of 128 tokens x kColumns of the output, one after the other: a warp
//           copies, two warpgroups multiply 64 tokens each. Two CTAs, a cluster, work on tiles of
//           neighbouring tokens and share the weights: each brings half of them to both. For few
//           tokens a CTA works alone.
// Bound     power at many tokens (the SM clock falls to 1.4 GHz), then the tensor cores, which work
//           in 80 % of the cycles: while sums of chunks are added and tiles stored they idle.
// Requires  k a multiple of 8, 16-byte alignment.
// Measured  on one H200 (2026-11-30, bf16 out, cold weights, medians of graphs of dependent
//           launches, in brackets cuBLASLt's time in the same run times ours): 8192 tokens, 2880 ->
//           5120 397 us = 609 TFLOP/s (0.93), 4096 -> 2880 320 us = 603 (0.93); 2048 tokens 102 us
//           (0.93) and 78 us (0.93); 512 tokens 26.8 (1.02) and 23.6 us (0.87); 256 tokens, 2880 ->
//           5120 16.2 us (0.85). Stores of pairs instead of 16 bytes a thread took a fifth of it.
//           Clusters of four share more, but only 30 fit the chip. Two accumulators of 64 x 160
//           leave no registers for more; halves of a chunk's end that overlap are serialised by
//           ptxas; a release of scope cluster in the arrivals at the other CTA cost a third.
#include "device/launch.h"
#include "kernels/gemm/tiles.cuh"

namespace rose {
namespace {

constexpr int kRingBytes = 225 * 1024;
// Clusters at work at a time cover 4 tiles of 256 tokens by about 16 of columns. (8 x 8 reads less
// from L2 and memory, but was up to 3 % slower.)
constexpr int kTogether = 4;

struct TilesParams {
  TileMaps maps;
  GemmParams gemm;
  int token_tiles = 0;   // of a whole cluster
  int column_tiles = 0;  // of kColumns
  int steps = 0;         // stages of a tile; what lies behind k is zero
};

struct Tile {
  int token, column;  // the first ones of this CTA
};

// Tile `i` of the clusters: kTogether tiles of tokens, then the next columns of these.
template <int kColumns, int kCluster>
__device__ Tile TileAt(const TilesParams& p, int i) {
  const int band = i / (kTogether * p.column_tiles), in_band = i % (kTogether * p.column_tiles);
  const int width = min(kTogether, p.token_tiles - band * kTogether);
  const int rank = static_cast<int>(ptx::ClusterRank());
  return {((band * kTogether + in_band % width) * kCluster + rank) * p.maps.rows,
          in_band / width * kColumns};
}

// The threads of all CTAs of the cluster.
template <int kCluster>
__device__ void Meet() {
  if constexpr (kCluster == 1) {
    __syncthreads();
  } else {
    ptx::ClusterSync();
  }
}

template <int kColumns, typename Ring>
__device__ void Multiply(const TilesParams& p, Ring& ring, Tile tile, typename Ring::Slot& slot) {
  const int group = threadIdx.x / 128 - 1;
  float total[kColumns / 2] = {};
  TileBias<kColumns> bias;
  for (int step = 0; step < p.steps; step += kStepsPerChunk) {
    float sum[kColumns / 2];
    // Early enough to be there when it is needed.
    if (step + kStepsPerChunk >= p.steps) {
      bias = LoadBias<kColumns>(p.gemm, tile.column);
    }
    ring.Chunk(slot, group, min(kStepsPerChunk, p.steps - step), sum);
#pragma unroll
    for (int j = 0; j < kColumns / 2; ++j) total[j] += sum[j];
  }
  const int64_t end = min(p.gemm.tokens, int64_t{tile.token} + p.maps.rows);
  StoreTile<kColumns>(p.gemm, tile.token + group * 64, end, tile.column, bias, total);
}

template <int kColumns, int kCluster>
__global__ void __launch_bounds__(kTileThreads, 1)
    sm90_bf16_gemm_tiles_kernel(const __grid_constant__ TilesParams p) {
  using Ring = TileRing<kColumns, kCluster, kRingBytes>;
  extern __shared__ uint8_t memory[];
  auto& ring = *reinterpret_cast<Ring*>((reinterpret_cast<uintptr_t>(memory) + 1023) / 1024 * 1024);
  ptx::DependencyLaunch();
  if (threadIdx.x == 0) {
    ptx::PrefetchMap(p.maps.x);
    ptx::PrefetchMap(p.maps.weight);
    ring.Begin();
    ptx::BarriersReady();
  }
  Meet<kCluster>();  // the barriers of all CTAs are there
  ptx::DependencyWait();
  const int tiles = p.token_tiles * p.column_tiles;
  const int first = blockIdx.x / kCluster, stride = gridDim.x / kCluster;
  typename Ring::Slot slot;
  if (threadIdx.x < 128) {
    ptx::RegistersDown<40>();
    for (int i = first; threadIdx.x == 0 && i < tiles; i += stride) {
      const Tile tile = TileAt<kColumns, kCluster>(p, i);
      for (int step = 0; step < p.steps; ++step, slot.Advance()) {
        ring.CopyWeights(p.maps, slot, step * kTileDepth, tile.column);
        ring.CopyX(p.maps, slot, step * kTileDepth, tile.token);
      }
    }
  } else {
    ptx::RegistersUp<232>();
    for (int i = first; i < tiles; i += stride) {
      Multiply<kColumns>(p, ring, TileAt<kColumns, kCluster>(p, i), slot);
    }
  }
  Meet<kCluster>();  // the other CTA neither copies to this one nor arrives here any more
}

template <int kColumns, int kCluster>
void LaunchTiles(const GemmParams& g, cudaStream_t stream) {
  const int64_t token_tiles = CeilDivide(g.tokens, kTileTokens * kCluster);
  const int rows = PickTileTokens(g.tokens, token_tiles * kCluster);
  const TilesParams params{
      .maps = {.x = MapMatrix(BoxOf(g.x, g.tokens, g.k, g.x_stride, rows)),
               .weight = MapMatrix(BoxOf(g.weight, g.n, g.k, g.k, kColumns / kCluster)),
               .rows = rows},
      .gemm = g,
      .token_tiles = static_cast<int>(token_tiles),
      .column_tiles = static_cast<int>(CeilDivide(g.n, kColumns)),
      .steps = static_cast<int>(CeilDivide(g.k, kTileDepth))};
  const int64_t tiles = int64_t{params.token_tiles} * params.column_tiles;
  constexpr size_t kSmem = sizeof(TileRing<kColumns, kCluster, kRingBytes>) + 1024;  // to align it
  static_assert(kSmem <= 227 * 1024, "what a CTA may have");
  constexpr auto kernel = sm90_bf16_gemm_tiles_kernel<kColumns, kCluster>;
  AllowSharedMemory("sm90_bf16_gemm_tiles", kernel, kSmem);
  const int64_t clusters = std::min<int64_t>(tiles, Multiprocessors() / kCluster);
  Launch("sm90_bf16_gemm_tiles", kernel,
         {.grid = dim3(static_cast<unsigned>(clusters * kCluster)),
          .block = dim3(kTileThreads),
          .smem_bytes = kSmem,
          .cluster = kCluster,
          .dependent = true},
         stream, params);
}

// Shapes of a tile that are built. Wide ones need fewer bytes from L2 a product, narrow ones leave
// fewer SMs idle where there are few tiles.
struct TileShape {
  int columns, cluster;
  void (*launch)(const GemmParams&, cudaStream_t);
};
constexpr TileShape kTileShapes[] = {{192, 2, LaunchTiles<192, 2>},
                                     {160, 2, LaunchTiles<160, 2>},
                                     {96, 2, LaunchTiles<96, 2>},
                                     {80, 2, LaunchTiles<80, 2>},
                                     {64, 1, LaunchTiles<64, 1>}};

}  // namespace

GemmWay PickGemmBf16Tiles(const GemmParams& g) {
  GemmWay best;
  for (const TileShape& shape : kTileShapes) {
    const int64_t tiles =
        CeilDivide(g.tokens, kTileTokens * shape.cluster) * CeilDivide(g.n, shape.columns);
    const int64_t rounds = CeilDivide(tiles, Multiprocessors() / shape.cluster);
    const int64_t cost = rounds * TileCost(shape.columns, CeilDivide(g.k, kTileDepth));
    if (cost < best.cost) best = {cost, shape.launch};
  }
  return best;
}

}  // namespace rose
