// Computes  products of experts for few rows: x . weight^T + bias, then SwiGLU rounded to bf16, or
//           the f32 products and, by the last expert of a token to come, their weighted sum,
//           rounded to bf16 once.
// Work      A CTA takes a contiguous share of all (tile of rows, block of 16 weight rows). Its
// warps
//           form groups, a group takes a block; a warp takes chunks of 512 columns of it, decodes
//           the weights in registers and multiplies them with up to 8 or 16 rows (mma.sync, weights
//           as the M side). Each warp copies its own weights, through a ring of its own.
// Bound     memory: weights are read once for a tile. 544 bytes a unit of 16 x 64 (mxfp4).
// Requires  cols a multiple of 32; hidden (down) a multiple of 2.
// Measured  on one H200 (2026-11-30, 1980 MHz, as the grouped kernel), 2880 x 2880, mxfp4, top 4 of
//           32: 1 token gate_up 23.4 us (1.5 TB/s), down 18.8 us (0.9); 8 tokens 92.9 us (1.9) and
//           73.2 us (1.2), of 4.3 TB/s. Not bound by memory yet: decoding, and blocks that wait for
//           the stores of the block before.
#include <algorithm>

#include "base/check.h"
#include "device/launch.h"
#include "kernels/common/ptx/bulk_copy.cuh"
#include "kernels/experts/expert_decode.cuh"
#include "kernels/experts/moe_gemm.h"
#include "kernels/experts/moe_math.cuh"

namespace rose {
namespace {

constexpr int kWarps = 12;
constexpr int kThreads = kWarps * 32;
constexpr int64_t kSharedBytes = 227 * 1024;
constexpr int kUnitCols = PackedExperts::kUnitCols;
constexpr int kUnitRows = PackedExperts::kUnitRows;
constexpr int kChainUnits = 2;  // fp8-block: one scale for 128 columns

template <Packing kPacking>
constexpr int kStageUnits = kPacking == Packing::kBf16 ? 2 : 4;  // of one copy, 2 to 4 kB

// Sizes of a launch, and where things lie in shared memory (byte offsets).
struct StripsShape {
  int tile;         // rows of a tile at most
  int pitch;        // bytes of a row of x
  int group_warps;  // warps that share a block of rows
  int chunks;
  int stages;  // of a warp's ring
  int x_at, partial_at, ring_at, barrier_at, plan_at;
  int bytes;
};

struct StripsParams {
  MoeGemmParams gemm;
  StripsShape shape;
};

// The sums of a CTA's rows by expert; what MoePlan says, for few entries.
struct OwnPlan {
  int* experts;  // [entries], then
  int* entries;  // [entries]
  int* counts;   // [experts + 1]
  MoeTile* tiles;
  int* tile_count;
};

__device__ OwnPlan OwnPlanAt(uint8_t* memory, int entries, int experts) {
  int* at = reinterpret_cast<int*>(memory);
  OwnPlan plan;
  plan.experts = at;
  plan.entries = at + entries;
  plan.counts = plan.entries + entries;
  plan.tile_count = plan.counts + experts;
  plan.tiles = reinterpret_cast<MoeTile*>(plan.tile_count + 1);
  return plan;
}

// All threads of the CTA.
__device__ MoePlan MakeOwnPlan(const MoeGemmParams& p, int tile, uint8_t* memory) {
  const OwnPlan plan = OwnPlanAt(memory, p.entry_count, p.weight.experts);
  for (int i = threadIdx.x; i < p.entry_count; i += kThreads) plan.experts[i] = p.experts[i];
  __syncthreads();  // all see all experts
  for (int expert = threadIdx.x; expert < p.weight.experts; expert += kThreads) {
    int count = 0;
    for (int i = 0; i < p.entry_count; ++i) count += plan.experts[i] == expert;
    plan.counts[expert] = count;
  }
  __syncthreads();  // warp 0 needs all counts
  if (threadIdx.x < 32) {
    const int lane = static_cast<int>(threadIdx.x);
    int first = 0, tiles = 0;
    for (int base = 0; base < p.weight.experts; base += 32) {
      const int expert = base + lane;
      const int count = expert < p.weight.experts ? plan.counts[expert] : 0;
      const int own_tiles = (count + tile - 1) / tile;
      int count_sum = count, tile_sum = own_tiles;  // inclusive prefixes
      for (int step = 1; step < 32; step *= 2) {
        const int c = __shfl_up_sync(~0u, count_sum, step), t = __shfl_up_sync(~0u, tile_sum, step);
        if (lane >= step) count_sum += c, tile_sum += t;
      }
      const int at = first + count_sum - count;
      if (expert < p.weight.experts) plan.counts[expert] = at;  // from here on: the first entry
      for (int t = 0; t < own_tiles; ++t)
        plan.tiles[tiles + tile_sum - own_tiles + t] = {expert, at + t * tile,
                                                        min(tile, count - t * tile)};
      first += __shfl_sync(~0u, count_sum, 31);
      tiles += __shfl_sync(~0u, tile_sum, 31);
    }
    if (lane == 0) *plan.tile_count = tiles;
  }
  __syncthreads();  // all need the first entries
  for (int i = threadIdx.x; i < p.entry_count; i += kThreads) {
    const int expert = plan.experts[i];
    int rank = 0;
    for (int j = 0; j < i; ++j) rank += plan.experts[j] == expert;
    plan.entries[plan.counts[expert] + rank] = i;
  }
  __syncthreads();  // the plan is whole
  return {plan.entries, plan.tiles, plan.tile_count};
}

// Walks a warp's copies: stages of the chunks of its group's blocks, in order.
template <Packing kPacking>
struct StageWalk {
  int item;  // (tile, block) of the CTA's range
  int chunk;
  int unit;  // first of the stage, within the row block

  __device__ void Next(const StripsShape& s, int units, int warp_of_group, int groups) {
    unit += kStageUnits<kPacking>;
    if (unit < min(units, (chunk + 1) * kChunkUnits)) return;
    chunk += s.group_warps;
    if (chunk >= s.chunks) chunk = warp_of_group, item += groups;
    unit = chunk * kChunkUnits;
  }
  __device__ int Units(int units) const {
    return min(kStageUnits<kPacking>, min(units, (chunk + 1) * kChunkUnits) - unit);
  }
};

// Rows of a tile into shared memory, columns beyond x's filled with zeros. All threads of the CTA.
__device__ void LoadRows(const MoeGemmParams& p, const StripsShape& s, const MoePlan& plan,
                         const MoeTile& tile, uint8_t* to) {
  const int vectors = p.weight.units() * kUnitCols / 8, inside = p.weight.cols / 8;
  for (int i = threadIdx.x; i < tile.count * vectors; i += kThreads) {
    const int row = i / vectors, vector = i % vectors;
    const int64_t from = plan.entries[tile.first + row] / p.x_divisor;
    uint4 v = {0, 0, 0, 0};
    if (vector < inside)
      v = *reinterpret_cast<const uint4*>(p.x + from * p.weight.cols + vector * 8);
    *reinterpret_cast<uint4*>(to + row * s.pitch + vector * 16) = v;
  }
}

// One block of 16 rows after all its chunks are in `partial` [chunks, 16, 8 kTiles]: adds them up
// and stores. Threads `thread` of `threads`, whole warps; 8 neighbours share a row of x.
template <int kTiles>
__device__ void FinishBlock(const MoeGemmParams& p, const StripsShape& s, const MoePlan& plan,
                            const MoeTile& tile, int block, const float* partial, int thread,
                            int threads) {
  constexpr int kPitch = 8 * kTiles;
  for (int i = thread; i < 64 * kTiles; i += threads) {
    const int r = i % 8, column = i / 8;
    const int row = block * kUnitRows + 2 * r;
    const bool active = column < tile.count && row < p.weight.rows;
    const int entry = active ? plan.entries[tile.first + column] : 0;
    if (active) {
      const float* at = partial + r * kPitch + column;
      float first = at[0], second = at[8 * kPitch];
      for (int chunk = 1; chunk < s.chunks; ++chunk) {
        at += kUnitRows * kPitch;
        first += at[0];
        second += at[8 * kPitch];
      }
      first += MoeBias(p, tile.expert, row);
      second += MoeBias(p, tile.expert, row + 1);
      if (p.activated != nullptr) {
        p.activated[int64_t{entry} * (p.weight.rows / 2) + row / 2] = MoeActivate(p, first, second);
        continue;
      }
      __stcg(reinterpret_cast<float2*>(p.products + int64_t{entry} * p.weight.rows + row),
             {first, second});
    }
    if (p.activated != nullptr || p.tickets == nullptr) continue;
    // The last of a token's experts to come to this block adds up all of them, in their order.
    __threadfence();  // this thread's products before the ticket
    __syncwarp();
    const int token = entry / p.experts_per_token;
    int32_t* ticket = p.tickets + token * p.weight.row_blocks() + block;
    int taken = 0;
    if (active && r == 0) taken = atomicAdd(ticket, 1);
    taken = __shfl_sync(~0u, taken, static_cast<int>(threadIdx.x % 32) & ~7);
    if (!active || taken != p.experts_per_token - 1) continue;
    __threadfence();  // the others' products after the ticket
    if (r == 0) *ticket = 0;
    *reinterpret_cast<uint32_t*>(p.out + int64_t{token} * p.weight.rows + row) =
        MoeSumPair(p, token, row);
  }
}

template <Packing kPacking, int kTiles>
__global__ void __launch_bounds__(kThreads, 1)
    sm90_bf16_moe_gemm_strips_kernel(const __grid_constant__ StripsParams params) {
  extern __shared__ __align__(128) uint8_t shared[];
  using Unit = ExpertUnit<kPacking>;
  constexpr int kStageBytes = kStageUnits<kPacking> * Unit::kBytes;
  constexpr int kPitch = 8 * kTiles;
  const MoeGemmParams& p = params.gemm;
  const StripsShape& s = params.shape;
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const int group = warp / s.group_warps, of_group = warp % s.group_warps;
  const int groups = kWarps / s.group_warps, group_threads = s.group_warps * 32;
  const int units = p.weight.units(), blocks = p.weight.row_blocks();

  uint8_t* ring = shared + s.ring_at + warp * s.stages * kStageBytes;
  uint64_t* full = reinterpret_cast<uint64_t*>(shared + s.barrier_at) + warp * s.stages;
  if (lane == 0) {
    for (int i = 0; i < s.stages; ++i) ptx::BarrierInit(full + i, 1);
    ptx::BarriersReady();
  }
  __syncwarp();
  ptx::DependencyWait();
  ptx::DependencyLaunch();
  const MoePlan plan =
      p.plan.tiles != nullptr ? p.plan : MakeOwnPlan(p, s.tile, shared + s.plan_at);

  const int64_t items = int64_t{*plan.tile_count} * blocks;
  const int begin = static_cast<int>(items * blockIdx.x / gridDim.x);
  const int end = static_cast<int>(items * (blockIdx.x + 1) / gridDim.x);

  // Lane 0 keeps the ring full; a slot is refilled by the warp that emptied it.
  StageWalk<kPacking> ahead{begin + group, of_group, of_group * kChunkUnits};
  const auto copy_next = [&](int slot) {
    if (of_group >= s.chunks || ahead.item >= end) return;
    const int64_t row_block =
        int64_t{plan.tiles[ahead.item / blocks].expert} * blocks + ahead.item % blocks;
    const uint32_t bytes = static_cast<uint32_t>(ahead.Units(units) * Unit::kBytes);
    ptx::BarrierExpect(full + slot, bytes);
    ptx::BulkCopy(ring + slot * kStageBytes,
                  p.weight.data + (row_block * units + ahead.unit) * Unit::kBytes, bytes,
                  full + slot);
    ahead.Next(s, units, of_group, groups);
  };
  if (lane == 0)
    for (int slot = 0; slot < s.stages; ++slot) copy_next(slot);

  int slot = 0, parity = 0, buffer = 0;
  int item = begin + group;
  for (int tile_index = begin / blocks; tile_index * blocks < end; ++tile_index) {
    const MoeTile tile = plan.tiles[tile_index];
    __syncthreads();  // nobody reads the rows of the tile before
    LoadRows(p, s, plan, tile, shared + s.x_at);
    __syncthreads();  // all rows are there
    // Lane l's row of ldmatrix: row l % 8 of each 8, columns 8 (l / 8) of 32. Beyond the tile's
    // rows any will do: columns of a product do not mix.
    uint32_t x_row[kTiles];
    for (int t = 0; t < kTiles; ++t)
      x_row[t] = ptx::SharedAddress(shared + s.x_at) +
                 min(t * 8 + lane % 8, tile.count - 1) * s.pitch + lane / 8 * 16;
    const int tiles = kTiles > 1 && tile.count > 8 ? kTiles : 1;
    for (; item < min(end, (tile_index + 1) * blocks); item += groups) {
      float* partial = reinterpret_cast<float*>(shared + s.partial_at) +
                       (group * 2 + buffer) * s.chunks * kUnitRows * kPitch;
      for (int chunk = of_group; chunk < s.chunks; chunk += s.group_warps) {
        float chain[kTiles][4] = {}, sum[kTiles][4] = {};
        const int last = min(units, (chunk + 1) * kChunkUnits);
        for (int first = chunk * kChunkUnits; first < last; first += kStageUnits<kPacking>) {
          ptx::BarrierWait(full + slot, parity);
          const uint32_t stage = ptx::SharedAddress(ring + slot * kStageBytes);
#pragma unroll
          for (int u = 0; u < kStageUnits<kPacking>; ++u) {
            if (first + u >= last) break;
            Unit unit;
            unit.Load(stage + u * Unit::kBytes, lane);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              uint32_t a[2][4];
              unit.Fragment(half, a[0], a[1]);
#pragma unroll
              for (int t = 0; t < kTiles; ++t) {
                if (t >= tiles) break;
                const uint4 b =
                    ptx::LoadMatrix4(x_row[t] + (first + u) * (kUnitCols * 2) + half * 64);
                ptx::MmaBf16(chain[t], a[0], b.x, b.y);
                ptx::MmaBf16(chain[t], a[1], b.z, b.w);
              }
            }
            if constexpr (Unit::kChainScales) {
              if ((first + u) % kChainUnits == kChainUnits - 1 || first + u == last - 1) {
                for (int t = 0; t < kTiles; ++t)
                  for (int i = 0; i < 4; ++i) {
                    sum[t][i] = __fmaf_rn(unit.scales[i / 2], chain[t][i], sum[t][i]);
                    chain[t][i] = 0;
                  }
              }
            }
          }
          __syncwarp();  // all lanes have the stage in registers
          if (lane == 0) copy_next(slot);
          if (++slot == s.stages) slot = 0, parity ^= 1;
        }
        const auto& result = Unit::kChainScales ? sum : chain;
        float* to = partial + (chunk * kUnitRows + lane / 4) * kPitch + lane % 4 * 2;
        for (int t = 0; t < kTiles; ++t) {
          *reinterpret_cast<float2*>(to + t * 8) = {result[t][0], result[t][1]};
          *reinterpret_cast<float2*>(to + 8 * kPitch + t * 8) = {result[t][2], result[t][3]};
        }
      }
      // The group's warps have put all chunks there. The other buffer keeps what a slow warp still
      // adds up while others go on.
      ptx::NamedBarrier(1 + group, group_threads);
      FinishBlock<kTiles>(p, s, plan, tile, item % blocks, partial,
                          static_cast<int>(threadIdx.x) - group * group_threads, group_threads);
      buffer ^= 1;
    }
  }
}

int GroupWarps(int chunks) {
  if (chunks <= 4) return chunks;
  if (chunks <= 6) return 6;
  return chunks % 4 == 0 ? 4 : 6;
}

int Align(int64_t bytes) {
  return static_cast<int>((bytes + 127) / 128 * 128);
}

// The layout for tiles of `tile` rows; its bytes are beyond kSharedBytes if it does not fit.
StripsShape ShapeOf(const PackedExperts& weight, int tile, int entries, bool has_plan) {
  StripsShape s{};
  const int tiles = tile > 8 ? 2 : 1;
  s.tile = tile;
  s.pitch = weight.units() * kUnitCols * 2 + 16;  // NOTE: + 16 spreads rows over all banks
  s.chunks = (weight.units() + kChunkUnits - 1) / kChunkUnits;
  s.group_warps = GroupWarps(s.chunks);
  const int groups = kWarps / s.group_warps;
  const int stage_bytes =
      (weight.packing == Packing::kBf16 ? kStageUnits<Packing::kBf16>
                                        : kStageUnits<Packing::kMxfp4>)*UnitBytes(weight.packing);
  const int64_t partial =
      int64_t{groups} * 2 * s.chunks * kUnitRows * 8 * tiles * static_cast<int>(sizeof(float));
  const int64_t plan = has_plan ? 0 : (2 * entries + weight.experts + 1) * 4 + entries * 12;
  s.partial_at = Align(int64_t{tile} * s.pitch);
  s.plan_at = s.partial_at + Align(partial);
  s.barrier_at = s.plan_at + Align(plan);
  s.ring_at = s.barrier_at + Align(kWarps * 8 * 8);
  const int64_t room = kSharedBytes - s.ring_at;
  s.stages = static_cast<int>(std::clamp<int64_t>(room / (kWarps * stage_bytes), 0, 4));
  s.bytes = s.ring_at + kWarps * s.stages * stage_bytes;
  if (s.stages < 2) s.bytes = kSharedBytes + 1;
  return s;
}

template <Packing kPacking>
void LaunchPacking(const StripsParams& p, int sms, cudaStream_t stream) {
  const auto launch = [&](auto kernel) {
    CudaCheck(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(kSharedBytes)),
              "shared memory of sm90_bf16_moe_gemm_strips");
    Launch("sm90_bf16_moe_gemm_strips", kernel,
           {.grid = dim3(static_cast<unsigned>(sms)),
            .block = dim3(kThreads),
            .smem_bytes = static_cast<size_t>(p.shape.bytes)},
           stream, p);
  };
  if (p.shape.tile > 8)
    launch(sm90_bf16_moe_gemm_strips_kernel<kPacking, 2>);
  else
    launch(sm90_bf16_moe_gemm_strips_kernel<kPacking, 1>);
}

}  // namespace

int StripsTileRows(const PackedExperts& weight, int tokens) {
  int tile = std::min(tokens, 16);
  while (tile > 1 && ShapeOf(weight, tile, kOwnPlanEntries, false).bytes > kSharedBytes) --tile;
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
