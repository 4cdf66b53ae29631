// Computes  out = x . weight^T + bias  for some hundred tokens, in the order that gemm.h gives;
//           where tiles over all of k would leave SMs idle, or be so narrow that x is read often.
// Work      two CTAs, a cluster, make a tile of 128 tokens x kColumns of the output: the first the
//           sums of the first half of the chunks of k, the second those of the others, which it
//           keeps apart. The first adds its own and sends the total to the second, which adds the
//           rest in order and stores.
// Bound     shared memory: what is copied there and read again for 128 x kColumns.
// Requires  k a multiple of 8, at most 4096, 16-byte alignment.
// Measured  as the tiles: 128 tokens, 2880 -> 5120 12.9 us (0.83), 4096 -> 2880 11.4 us (0.88, the
//           tiles 15.7); 256 tokens, 4096 -> 2880 15.0 us (0.79); 40 tokens 12.0 (0.82) and 10.7 us
//           (1.12).
#include <algorithm>

#include "device/launch.h"
#include "kernels/gemm/tiles.cuh"

namespace rose {
namespace {

constexpr int kHeld = 4;  // chunks that a CTA keeps apart
constexpr int kMostSteps = 2 * kHeld * kStepsPerChunk;
// Stages whose weights are asked for before the wait for the kernels ahead. More would have x wait
// for them.
constexpr int kEarly = 2;

struct PartsParams {
  TileMaps maps;
  GemmParams gemm;
  int column_tiles = 0;  // of kColumns
  int steps = 0;         // stages of a tile; what lies behind k is zero
};

template <int kColumns>
struct PartsShared {
  static constexpr int kTotalBytes = kTileTokens * kColumns * sizeof(float);

  using Ring = TileRing<kColumns, 1, 224 * 1024 - kTotalBytes>;

  Ring ring;
  // The first CTA's total, as the threads of the second hold theirs.
  float4 total[kColumns / 8][kTileGroups * 128];
  uint64_t arrived;  // the bytes of that
};

// A CTA's stages, [begin, end).
struct Part {
  int begin, end;

  __device__ explicit Part(int steps) {
    const int chunks = (steps + kStepsPerChunk - 1) / kStepsPerChunk;
    const int middle = min(steps, (chunks + 1) / 2 * kStepsPerChunk);
    const bool is_first = ptx::ClusterRank() == 0;
    begin = is_first ? 0 : middle;
    end = is_first ? middle : steps;
  }
};

template <int kColumns>
__device__ void Copy(const PartsParams& p, PartsShared<kColumns>& shared, int token, int row) {
  auto& ring = shared.ring;
  const Part part(p.steps);
  typename PartsShared<kColumns>::Ring::Slot weights, x;
  const auto copy_weights = [&](int step) {
    ring.CopyWeights(p.maps, weights, step * kTileDepth, row);
    weights.Advance();
  };
  const int early = min(part.end, part.begin + kEarly);
  for (int step = part.begin; step < early; ++step) copy_weights(step);
  ptx::DependencyWait();
  for (int step = part.begin; step < part.end; ++step, x.Advance()) {
    if (step >= early) copy_weights(step);
    ring.CopyX(p.maps, x, step * kTileDepth, token);
  }
}

template <int kColumns>
__device__ void Multiply(const PartsParams& p, PartsShared<kColumns>& shared, int token, int row) {
  const int group = threadIdx.x / 128 - 1, thread = threadIdx.x - 128;
  const Part part(p.steps);
  const bool is_first = ptx::ClusterRank() == 0;
  float sums[kHeld][kColumns / 2];
  typename PartsShared<kColumns>::Ring::Slot slot;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int begin = part.begin + i * kStepsPerChunk;
    if (begin < part.end) {
      shared.ring.Chunk(slot, group, min(kStepsPerChunk, part.end - begin), sums[i]);
    }
  }
  if (!is_first) ptx::BarrierWait(&shared.arrived, 0);
#pragma unroll
  for (int j = 0; j < kColumns / 8; ++j) {
    const float4 before = is_first ? float4{} : shared.total[j][thread];
    float total[4] = {before.x, before.y, before.z, before.w};
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      if (part.begin + i * kStepsPerChunk >= part.end) continue;
#pragma unroll
      for (int e = 0; e < 4; ++e) total[e] += sums[i][4 * j + e];
    }
    if (is_first) {
      ptx::StoreAtAsync(&shared.total[j][thread], /*rank=*/1,
                        float4{total[0], total[1], total[2], total[3]}, &shared.arrived);
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) sums[0][4 * j + e] = total[e];
  }
  if (is_first) return;
  const int64_t end = min(p.gemm.tokens, int64_t{token} + p.maps.rows);
  StoreTile<kColumns>(p.gemm, token + group * 64, end, row, LoadBias<kColumns>(p.gemm, row),
                      sums[0]);
}

template <int kColumns>
__global__ void __launch_bounds__(kTileThreads, 1)
    sm90_bf16_gemm_parts_kernel(const __grid_constant__ PartsParams p) {
  extern __shared__ uint8_t memory[];
  auto& shared = *reinterpret_cast<PartsShared<kColumns>*>(
      (reinterpret_cast<uintptr_t>(memory) + 1023) / 1024 * 1024);
  ptx::DependencyLaunch();
  if (threadIdx.x == 0) {
    ptx::PrefetchMap(p.maps.x);
    ptx::PrefetchMap(p.maps.weight);
    shared.ring.Begin();
    ptx::BarrierInit(&shared.arrived, 1);
    ptx::BarrierExpect(&shared.arrived, shared.kTotalBytes);
    ptx::BarriersReady();
  }
  ptx::ClusterSync();  // the barriers of both CTAs are there
  const int tile = static_cast<int>(blockIdx.x) / 2;
  const int token = tile / p.column_tiles * p.maps.rows, row = tile % p.column_tiles * kColumns;
  if (threadIdx.x < 128) {
    ptx::RegistersDown<40>();
    if (threadIdx.x == 0) Copy<kColumns>(p, shared, token, row);
  } else {
    ptx::RegistersUp<232>();
    ptx::DependencyWait();
    Multiply<kColumns>(p, shared, token, row);
  }
  ptx::ClusterSync();  // nothing is under way to the other CTA any more
}

template <int kColumns>
void LaunchParts(const GemmParams& g, cudaStream_t stream) {
  const int64_t token_tiles = CeilDivide(g.tokens, kTileTokens);
  const int rows = PickTileTokens(g.tokens, token_tiles);
  const PartsParams params{.maps = {.x = MapMatrix(BoxOf(g.x, g.tokens, g.k, g.x_stride, rows)),
                                    .weight = MapMatrix(BoxOf(g.weight, g.n, g.k, g.k, kColumns)),
                                    .rows = rows},
                           .gemm = g,
                           .column_tiles = static_cast<int>(CeilDivide(g.n, kColumns)),
                           .steps = static_cast<int>(CeilDivide(g.k, kTileDepth))};
  ROSE_CHECK(params.steps <= kMostSteps, "k=", g.k);
  constexpr size_t kSmem = sizeof(PartsShared<kColumns>) + 1024;  // room to align it
  static_assert(kSmem <= 227 * 1024, "what a CTA may have");
  constexpr auto kernel = sm90_bf16_gemm_parts_kernel<kColumns>;
  AllowSharedMemory("sm90_bf16_gemm_parts", kernel, kSmem);
  Launch("sm90_bf16_gemm_parts", kernel,
         {.grid = dim3(static_cast<unsigned>(2 * token_tiles * params.column_tiles)),
          .block = dim3(kTileThreads),
          .smem_bytes = kSmem,
          .cluster = 2,
          .dependent = true},
         stream, params);
}

struct PartsShape {
  int columns;
  void (*launch)(const GemmParams&, cudaStream_t);
};
constexpr PartsShape kPartsShapes[] = {
    {96, LaunchParts<96>}, {80, LaunchParts<80>}, {48, LaunchParts<48>}};

}  // namespace

GemmWay PickGemmBf16Parts(const GemmParams& g) {
  constexpr int64_t kHandOver = 600;  // what sending the total costs, in units of TileCost
  const int64_t steps = CeilDivide(g.k, kTileDepth);
  GemmWay best;
  if (steps > kMostSteps) return best;
  const int64_t longer = CeilDivide(CeilDivide(steps, kStepsPerChunk), 2) * kStepsPerChunk;
  for (const PartsShape& shape : kPartsShapes) {
    const int64_t tiles = CeilDivide(g.tokens, kTileTokens) * CeilDivide(g.n, shape.columns);
    // In a second round the SMs would begin anew.
    if (tiles > Multiprocessors() / 2) continue;
    const int64_t cost = TileCost(shape.columns, std::min(steps, longer)) + kHandOver;
    if (cost < best.cost) best = {cost, shape.launch};
  }
  return best;
}

}  // namespace rose
