// Computes  out = x . weight^T + bias  for many tokens, in the order that gemm.h gives.
// Work      a CTA makes tiles of 128 tokens x kColumns of the output, one after the other: a warp
//           copies, two warpgroups multiply 64 tokens each. Two CTAs, a cluster, work on tiles of
//           neighbouring tokens and share the weights: each brings half of them to both. For few
//           tokens a CTA works alone.
// Bound     the tensor cores; the copies from L2 come next, which is why weights are shared.
// Requires  k a multiple of 8, 16-byte alignment.
// Measured  on one H200 (2026-11-30, bf16 out, cold weights, medians of graphs of dependent
//           launches, at the power cap): 8192 tokens, 2880 -> 5120 418 us = 579 TFLOP/s, 4096 ->
//           2880 311 us = 620; 2048 tokens 108 us = 561 and 84 us = 575; 512 tokens 29 and 24 us,
//           256 tokens 21 and 18 us, 128 tokens 16 and 18 us. Two accumulators of 64 x 160 leave no
//           registers for more; a release of scope cluster in the arrivals at the other CTA cost a
//           third.
#include <algorithm>

#include "device/launch.h"
#include "device/tensor_map.h"
#include "kernels/common/ptx/bulk_copy.cuh"
#include "kernels/common/ptx/tensor_copy.cuh"
#include "kernels/common/ptx/warpgroup.cuh"
#include "kernels/common/ptx/wgmma.cuh"
#include "kernels/gemm/internal.h"
#include "kernels/gemm/store.cuh"

namespace rose {
namespace {

constexpr int kGroups = 2;  // warpgroups that multiply
constexpr int kThreads = (kGroups + 1) * 128;
constexpr int kTokens = kGroups * 64;  // of a CTA's tile
constexpr int kDepth = 64;             // columns of x and weight in a stage: 128 bytes
constexpr int kRowBytes = kDepth * sizeof(Bf16);
constexpr int kStepsPerChunk = 512 / kDepth;
// Clusters at work at a time cover about 8 x 8 tiles, whose operands stay in L2.
constexpr int kTogether = 8;

struct TilesParams {
  CUtensorMap x_map;       // boxes of kTokens rows
  CUtensorMap weight_map;  // boxes of kColumns / kCluster rows
  GemmParams gemm;
  int token_tiles = 0;   // of a whole cluster: kCluster * kTokens
  int column_tiles = 0;  // of kColumns
  int steps = 0;         // stages of a tile; what lies behind k is zero
};

template <int kColumns, int kCluster>
struct Shared {
  static constexpr int kStageBytes = (kTokens + kColumns) * kRowBytes;
  static constexpr int kStages = 220 * 1024 / kStageBytes;

  struct Stage {
    uint8_t x[kTokens * kRowBytes];
    uint8_t weights[kColumns * kRowBytes];
  };
  Stage stages[kStages];
  uint64_t full[kStages];   // the copying lane, and the bytes of both CTAs
  uint64_t empty[kStages];  // a lane of each multiplying warp of both CTAs
};

struct Tile {
  int token = 0;   // the first of the cluster
  int column = 0;  // the first
};

// Tile `i`: kTogether tiles of tokens, then the next columns of these.
template <int kColumns, int kCluster>
__device__ Tile TileAt(const TilesParams& p, int i) {
  const int band = i / (kTogether * p.column_tiles), in_band = i % (kTogether * p.column_tiles);
  const int width = min(kTogether, p.token_tiles - band * kTogether);
  return {(band * kTogether + in_band % width) * kTokens * kCluster, in_band / width * kColumns};
}

struct Slot {
  int index = 0;
  uint32_t phase = 0;

  __device__ void Advance(int stages) {
    if (++index == stages) index = 0, phase ^= 1;
  }
};

template <int kColumns, int kCluster>
__device__ void Copy(const TilesParams& p, Shared<kColumns, kCluster>& shared, int first,
                     int stride) {
  constexpr int kShare = kColumns / kCluster;
  const int rank = static_cast<int>(ptx::ClusterRank());
  Slot slot;
  for (int i = first; i < p.token_tiles * p.column_tiles; i += stride) {
    const Tile tile = TileAt<kColumns, kCluster>(p, i);
    for (int step = 0; step < p.steps; ++step, slot.Advance(shared.kStages)) {
      // The multiplying warps of both CTAs are done with what the slot held.
      ptx::BarrierWait(&shared.empty[slot.index], slot.phase ^ 1);
      auto& stage = shared.stages[slot.index];
      uint64_t* full = &shared.full[slot.index];
      ptx::BarrierExpect(full, shared.kStageBytes);
      ptx::CopyBox(stage.x, p.x_map, step * kDepth, tile.token + rank * kTokens, full);
      if constexpr (kCluster == 1) {
        ptx::CopyBox(stage.weights, p.weight_map, step * kDepth, tile.column, full);
      } else {
        ptx::CopyBoxToAll(stage.weights + rank * kShare * kRowBytes, p.weight_map, step * kDepth,
                          tile.column + rank * kShare, full, (1 << kCluster) - 1);
      }
    }
  }
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

// This warp is done with the slot; says so to both CTAs, since both fill it.
template <int kColumns, int kCluster>
__device__ void Release(Shared<kColumns, kCluster>& shared, int slot) {
  const uint32_t lane = threadIdx.x % 32;
  if (lane < kCluster) ptx::BarrierArriveAt(&shared.empty[slot], lane);
}

// The sum over `steps` stages, from zero.
template <int kColumns, int kCluster>
__device__ void Chunk(Shared<kColumns, kCluster>& shared, Slot& slot, int group, int steps,
                      float (&sum)[kColumns / 2]) {
#pragma unroll
  for (float& value : sum) value = 0;
  int before = -1;  // the slot whose products may be unfinished
  for (int s = 0; s < steps; ++s, slot.Advance(shared.kStages)) {
    ptx::BarrierWait(&shared.full[slot.index], slot.phase);
    auto& stage = shared.stages[slot.index];
    const uint64_t x = ptx::TileDescriptor(stage.x + group * 64 * kRowBytes);
    const uint64_t weights = ptx::TileDescriptor(stage.weights);
    ptx::ProductFence();
#pragma unroll
    for (int k = 0; k < kDepth / 16; ++k) {
      ptx::WarpgroupProduct<kColumns>::Shared(sum, x + 2 * k, weights + 2 * k, 1);
    }
    ptx::ProductCommit();
    ptx::ProductWait<1>();
    if (before >= 0) Release(shared, before);
    before = slot.index;
  }
  ptx::ProductWait<0>();
  Release(shared, before);
}

template <int kColumns>
__device__ void Store(const GemmParams& p, int64_t token, int64_t column,
                      const float (&total)[kColumns / 2]) {
#pragma unroll
  for (int j = 0; j < kColumns / 8; ++j) {
    const int64_t n = column + 8 * j;
    const float bias[2] = {n < p.n ? BiasOf(p.bias, n) : 0,
                           n + 1 < p.n ? BiasOf(p.bias, n + 1) : 0};
#pragma unroll
    for (int down = 0; down < 2; ++down) {
      if (n < p.n && token + 8 * down < p.tokens) {
        StorePair(p, token + 8 * down, n, total[4 * j + 2 * down] + bias[0],
                  total[4 * j + 2 * down + 1] + bias[1]);
      }
    }
  }
}

template <int kColumns, int kCluster>
__device__ void Multiply(const TilesParams& p, Shared<kColumns, kCluster>& shared, int first,
                         int stride) {
  const int rank = static_cast<int>(ptx::ClusterRank());
  const int group = threadIdx.x / 128 - 1, lane = threadIdx.x % 32;
  const int row = group * 64 + threadIdx.x % 128 / 32 * 16 + lane / 4;
  Slot slot;
  for (int i = first; i < p.token_tiles * p.column_tiles; i += stride) {
    const Tile tile = TileAt<kColumns, kCluster>(p, i);
    float total[kColumns / 2] = {};
    for (int step = 0; step < p.steps; step += kStepsPerChunk) {
      float sum[kColumns / 2];
      Chunk<kColumns, kCluster>(shared, slot, group, min(kStepsPerChunk, p.steps - step), sum);
#pragma unroll
      for (int j = 0; j < kColumns / 2; ++j) total[j] += sum[j];
    }
    Store<kColumns>(p.gemm, tile.token + rank * kTokens + row, tile.column + lane % 4 * 2, total);
  }
}

template <int kColumns, int kCluster>
__global__ void __launch_bounds__(kThreads, 1)
    sm90_bf16_gemm_tiles_kernel(const __grid_constant__ TilesParams p) {
  extern __shared__ uint8_t memory[];
  auto& shared = *reinterpret_cast<Shared<kColumns, kCluster>*>(
      (reinterpret_cast<uintptr_t>(memory) + 1023) / 1024 * 1024);
  ptx::DependencyLaunch();
  if (threadIdx.x == 0) {
    for (int i = 0; i < shared.kStages; ++i) {
      ptx::BarrierInit(&shared.full[i], 1);
      ptx::BarrierInit(&shared.empty[i], kCluster * kGroups * 4);
    }
    ptx::BarriersReady();
  }
  Meet<kCluster>();  // the barriers of both CTAs are there
  ptx::DependencyWait();
  const int first = blockIdx.x / kCluster, stride = gridDim.x / kCluster;
  if (threadIdx.x < 128) {
    ptx::RegistersDown<40>();
    if (threadIdx.x == 0) Copy<kColumns, kCluster>(p, shared, first, stride);
  } else {
    ptx::RegistersUp<232>();
    Multiply<kColumns, kCluster>(p, shared, first, stride);
  }
  Meet<kCluster>();  // the other CTA neither copies to this one nor arrives here any more
}

template <int kColumns, int kCluster>
void LaunchTiles(const GemmParams& g, cudaStream_t stream) {
  static_assert(kColumns % (8 * kCluster) == 0, "a share of the weights is whole groups of 8 rows");
  const TilesParams params{
      .x_map = MapMatrix(BoxOf(g.x, g.tokens, g.k, g.x_stride, kTokens)),
      .weight_map = MapMatrix(BoxOf(g.weight, g.n, g.k, g.k, kColumns / kCluster)),
      .gemm = g,
      .token_tiles = static_cast<int>(CeilDivide(g.tokens, kTokens * kCluster)),
      .column_tiles = static_cast<int>(CeilDivide(g.n, kColumns)),
      .steps = static_cast<int>(CeilDivide(g.k, kDepth))};
  const int64_t tiles = int64_t{params.token_tiles} * params.column_tiles;
  constexpr size_t kSmem = sizeof(Shared<kColumns, kCluster>) + 1024;  // room to align it
  static_assert(kSmem <= 227 * 1024, "what a CTA may have");
  constexpr auto kernel = sm90_bf16_gemm_tiles_kernel<kColumns, kCluster>;
  AllowSharedMemory("sm90_bf16_gemm_tiles", kernel, kSmem);
  const int64_t clusters = std::min<int64_t>(tiles, Multiprocessors() / kCluster);
  Launch("sm90_bf16_gemm_tiles", kernel,
         {.grid = dim3(static_cast<unsigned>(clusters * kCluster)),
          .block = dim3(kThreads),
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
                                     {64, 1, LaunchTiles<64, 1>}};

// Rounds of all SMs times what a round costs: its products, and what does not shrink with them.
int64_t CostOf(const TileShape& shape, const GemmParams& g, int sms) {
  constexpr int64_t kFixed = 32;  // in columns
  const int64_t tiles =
      CeilDivide(g.tokens, kTokens * shape.cluster) * CeilDivide(g.n, shape.columns);
  return CeilDivide(tiles, sms / shape.cluster) * (shape.columns + kFixed);
}

}  // namespace

void LaunchGemmBf16Tiles(const GemmParams& params, cudaStream_t stream) {
  const int sms = Multiprocessors();
  const TileShape* best = &kTileShapes[0];
  for (const TileShape& shape : kTileShapes) {
    if (CostOf(shape, params, sms) < CostOf(*best, params, sms)) best = &shape;
  }
  best->launch(params, stream);
}

}  // namespace rose
