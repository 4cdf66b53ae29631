// What the products for few tokens share.
//
// A CTA owns `rows` rows of the weight (at most 64; chosen so that every SM has the same number)
// over all of k, so no sum leaves it. Two lanes fill a ring of stages of 128 columns by bulk
// copies, one with weights, one with x. Warpgroups take chunks of columns in turn: the rows are the
// 64-row operand of their products (those that are not the tile's hold leftovers, and their sums
// are dropped), the tokens the narrow one. The total goes from chunk to chunk through shared
// memory.
//
// What differs by format is in a struct of statics: Gemm (the parameters), kTokens, kStageColumns,
// kBoxes (of 128 bytes a row, of weights in a stage), kStepsPerChunk, kGroups (of warps, that
// multiply), Multiply (the products of a stage) and ScalesOf.
#pragma once

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

constexpr int kTileRows = 64;
constexpr int kRowBytes = 128;  // of a box
constexpr int kMaxStages = 32;
constexpr int kRingBytes = 200 * 1024;

template <typename Gemm>
struct StreamParams {
  CUtensorMap weight_map;  // boxes of `rows` rows
  CUtensorMap x_map;       // boxes of kTokens rows
  Gemm gemm;
  int rows = 0;  // of the weight, a tile
  int row_tiles = 0, token_tiles = 0;
  int steps = 0;  // stages of a row; columns behind k are zeros
  // Whether one copy takes all blocks of a stage: where rows are whole blocks (MapBlocks).
  bool is_whole_weight = false, is_whole_x = false;
  int stages = 0;
};

template <typename Format>
constexpr int kStreamThreads = Format::kGroups * 128 + 64;

template <int kTokens, int kGroups>
struct StreamShared {
  // Of the sums so far of a tile, what the threads of a warpgroup hold, four at a time.
  float4 total[kTokens / 8][128];
  uint64_t full[kMaxStages];   // the lane that copies weights, and the stage's bytes
  uint64_t empty[kMaxStages];  // a lane of each warp of the group whose stage it was
  uint64_t added[kGroups];     // the threads of a group: its chunk is in `total`
};

// Where a warp stands: which tile of this CTA, which stage of its row, which slot of the ring.
struct Cursor {
  int tile, step = 0, slot = 0;
  uint32_t phase = 0;

  __device__ void Advance(int steps, int stages) {
    if (++step == steps) step = 0, tile += gridDim.x;
    if (++slot == stages) slot = 0, phase ^= 1;
  }
};

__host__ __device__ constexpr int BoxBytes(int rows) {
  return (rows + 7) / 8 * 8 * kRowBytes;  // the swizzle repeats after 8 rows
}

// Blocks of 64 columns of x in a stage.
template <typename Format>
constexpr int kXBoxes = Format::kStageColumns / 64;

template <typename Format>
__host__ __device__ constexpr int StageBytes(int rows) {
  return Format::kBoxes * BoxBytes(rows) + kXBoxes<Format> * BoxBytes(Format::kTokens);
}

template <typename Format>
class Stream {
 public:
  using Params = StreamParams<typename Format::Gemm>;
  static constexpr int kTokens = Format::kTokens;
  static constexpr int kGroups = Format::kGroups;

  __device__ Stream(const Params& p, uint8_t* ring, StreamShared<kTokens, kGroups>& shared)
      : p_(p),
        ring_(ring),
        shared_(shared),
        tiles_(p.row_tiles * p.token_tiles),
        weight_bytes_(BoxBytes(p.rows)),
        stage_bytes_(StageBytes<Format>(p.rows)) {}

  // The lane that copies weights. They do not depend on the kernels ahead.
  __device__ void CopyWeights() const {
    for (Cursor at = Begin(); at.tile < tiles_; Advance(at)) {
      WaitEmpty(at);
      ptx::BarrierExpect(&shared_.full[at.slot],
                         (Format::kBoxes * p_.rows + kXBoxes<Format> * kTokens) * kRowBytes);
      CopyBlocks<Format::kBoxes>(Weights(at.slot), p_.weight_map, p_.is_whole_weight, at,
                                 at.tile % p_.row_tiles * p_.rows, weight_bytes_);
    }
  }

  // The lane that copies x.
  __device__ void CopyX() const {
    ptx::DependencyWait();
    for (Cursor at = Begin(); at.tile < tiles_; Advance(at)) {
      WaitEmpty(at);
      CopyBlocks<kXBoxes<Format>>(X(at.slot), p_.x_map, p_.is_whole_x, at,
                                  at.tile / p_.row_tiles * kTokens, BoxBytes(kTokens));
    }
  }

  // Warpgroup `group` of those that multiply: every kGroups-th chunk of this CTA is its own.
  __device__ void Multiply(int group) const {
    Cursor at = Begin();
    for (int chunk = 0; at.tile < tiles_; ++chunk) {
      const int steps = min(Format::kStepsPerChunk, p_.steps - at.step);
      if (chunk % kGroups != group) {
        for (int i = 0; i < steps; ++i) Advance(at);
        continue;
      }
      // A wait cannot tell a slot that is two fills behind from one that is filled. That the last
      // chunk whose stages may have had these slots is added says that its stages were filled.
      const int fit = p_.stages / Format::kStepsPerChunk;
      if (fit < kGroups && chunk >= fit) WaitAdded(chunk - fit);
      const Cursor begin = at;
      const bool is_first = at.step == 0, is_last = at.step + steps == p_.steps;
      const float2 scales = Format::ScalesOf(p_.gemm, RowOf(begin.tile), begin.step);
      float sum[kTokens / 2];
      Chunk(at, steps, sum);
      // The chunk before, of another group, is in the total, and nobody else touches it now.
      if (chunk > 0) WaitAdded(chunk - 1);
      AddTotal(is_first, is_last, scales, sum);
      ptx::BarrierArrive(&shared_.added[group]);
      if (is_last) Store(begin.tile, sum);
    }
  }

 private:
  __device__ Cursor Begin() const { return {.tile = static_cast<int>(blockIdx.x)}; }
  __device__ void Advance(Cursor& at) const { at.Advance(p_.steps, p_.stages); }
  __device__ uint8_t* Weights(int slot) const { return ring_ + slot * stage_bytes_; }
  __device__ uint8_t* X(int slot) const { return Weights(slot) + Format::kBoxes * weight_bytes_; }

  // A stage's blocks of some rows.
  template <int kBlocks>
  __device__ void CopyBlocks(uint8_t* target, const CUtensorMap& map, bool is_whole,
                             const Cursor& at, int row, int block_bytes) const {
    uint64_t* full = &shared_.full[at.slot];
    if (is_whole) {
      ptx::CopyBox(target, map, 0, row, at.step * kBlocks, full);
      return;
    }
    constexpr int kColumns = Format::kStageColumns / kBlocks;
    for (int b = 0; b < kBlocks; ++b) {
      ptx::CopyBox(target + b * block_bytes, map, (at.step * kBlocks + b) * kColumns, row, 0, full);
    }
  }

  // The upper of this thread's two rows, in the tile and in the weight; the other is 8 further.
  __device__ static int RowInTile() { return threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4; }
  __device__ int64_t RowOf(int tile) const {
    return int64_t{tile % p_.row_tiles} * p_.rows + RowInTile();
  }

  // Waits until the products with what the slot held are done.
  __device__ void WaitEmpty(const Cursor& at) const {
    ptx::BarrierWait(&shared_.empty[at.slot], at.phase ^ 1);
  }

  // Waits until a chunk of one of the kGroups - 1 last turns is in the total.
  __device__ void WaitAdded(int chunk) const {
    ptx::BarrierWait(&shared_.added[chunk % kGroups], chunk / kGroups & 1);
  }

  // This warp is done with the slot.
  __device__ void Release(int slot) const {
    if (threadIdx.x % 32 == 0) ptx::BarrierArrive(&shared_.empty[slot]);
  }

  // The sum over `steps` stages, from zero.
  __device__ void Chunk(Cursor& at, int steps, float (&sum)[kTokens / 2]) const {
#pragma unroll
    for (float& value : sum) value = 0;
    int before = -1;  // the slot whose products may be unfinished
    for (int s = 0; s < steps; ++s, Advance(at)) {
      ptx::BarrierWait(&shared_.full[at.slot], at.phase);
      Format::Multiply(Weights(at.slot), weight_bytes_, X(at.slot), sum);
      ptx::ProductCommit();
      ptx::ProductWait<1>();
      if (before >= 0) Release(before);
      before = at.slot;
    }
    ptx::ProductWait<0>();
    Release(before);
  }

  // sum = the total of the tile's chunks up to this one, also left for the next chunk.
  __device__ void AddTotal(bool is_first, bool is_last, float2 scales,
                           float (&sum)[kTokens / 2]) const {
#pragma unroll
    for (int i = 0; i < kTokens / 8; ++i) {
      float4& total = shared_.total[i][threadIdx.x % 128];
      const float4 before = is_first ? float4{} : total;
      // With a scale of one this is the plain sum.
      sum[4 * i] = fmaf(sum[4 * i], scales.x, before.x);
      sum[4 * i + 1] = fmaf(sum[4 * i + 1], scales.x, before.y);
      sum[4 * i + 2] = fmaf(sum[4 * i + 2], scales.y, before.z);
      sum[4 * i + 3] = fmaf(sum[4 * i + 3], scales.y, before.w);
      if (!is_last) total = {sum[4 * i], sum[4 * i + 1], sum[4 * i + 2], sum[4 * i + 3]};
    }
  }

  __device__ void Store(int tile, const float (&total)[kTokens / 2]) const {
    const int64_t token = int64_t{tile / p_.row_tiles} * kTokens + threadIdx.x % 4 * 2;
    const int64_t n = RowOf(tile);
#pragma unroll
    for (int down = 0; down < 2; ++down) {
      if (RowInTile() + 8 * down >= p_.rows || n + 8 * down >= p_.gemm.n) continue;
      const float bias = BiasOf(p_.gemm.bias, n + 8 * down);
#pragma unroll
      for (int i = 0; i < kTokens / 4; ++i) {
        const int64_t to_token = token + i / 2 * 8 + i % 2;
        if (to_token < p_.gemm.tokens) {
          StoreSum(p_.gemm, to_token, n + 8 * down, total[i / 2 * 4 + 2 * down + i % 2] + bias);
        }
      }
    }
  }

  const Params& p_;
  uint8_t* ring_;
  StreamShared<kTokens, kGroups>& shared_;
  const int tiles_, weight_bytes_, stage_bytes_;
};

// What a kernel does.
template <typename Format>
__device__ void RunStream(const StreamParams<typename Format::Gemm>& p) {
  constexpr int kGroups = Format::kGroups;
  using Shared = StreamShared<Format::kTokens, kGroups>;
  extern __shared__ uint8_t memory[];
  uint8_t* ring =
      reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(memory) + 1023) / 1024 * 1024);
  auto& shared = *reinterpret_cast<Shared*>(ring + p.stages * StageBytes<Format>(p.rows));
  ptx::DependencyLaunch();
  if (threadIdx.x == kGroups * 128) ptx::PrefetchMap(p.weight_map);
  if (threadIdx.x == kGroups * 128 + 32) ptx::PrefetchMap(p.x_map);
  if (threadIdx.x == 0) {
    for (int i = 0; i < p.stages; ++i) {
      ptx::BarrierInit(&shared.full[i], 1);
      ptx::BarrierInit(&shared.empty[i], 4);
    }
    for (uint64_t& added : shared.added) ptx::BarrierInit(&added, 128);
    ptx::BarriersReady();
  }
  __syncthreads();  // the barriers are there
  Stream<Format> stream(p, ring, shared);
  const int group = threadIdx.x / 128;
  if (group == kGroups) {
    if (threadIdx.x == kGroups * 128) stream.CopyWeights();
    if (threadIdx.x == kGroups * 128 + 32) stream.CopyX();
    return;
  }
  stream.Multiply(group);
}

// The rows of a tile, whole groups of 8, so that `sms` SMs have as equal shares as 64-row tiles
// allow.
inline int PickRows(int64_t n, int sms) {
  const int64_t rounds = CeilDivide(n, int64_t{sms} * kTileRows);
  const int64_t share = CeilDivide(CeilDivide(n, sms * rounds), 8) * 8;
  return static_cast<int>(std::min<int64_t>(share, kTileRows));
}

template <typename Format>
void LaunchStream(std::string_view name, void (*kernel)(StreamParams<typename Format::Gemm>),
                  const typename Format::Gemm& g, cudaStream_t stream) {
  constexpr int kTokens = Format::kTokens;
  const int sms = Multiprocessors();
  const int rows = PickRows(g.n, sms);
  StreamParams<typename Format::Gemm> params{
      .weight_map = MapBlocks(BoxOf(g.weight, g.n, g.k, g.k, rows), Format::kBoxes),
      .x_map = MapBlocks(BoxOf(g.x, g.tokens, g.k, g.x_stride, kTokens), kXBoxes<Format>),
      .gemm = g,
      .rows = rows,
      .row_tiles = static_cast<int>(CeilDivide(g.n, rows)),
      .token_tiles = static_cast<int>(CeilDivide(g.tokens, kTokens)),
      .steps = static_cast<int>(CeilDivide(g.k, Format::kStageColumns)),
      .is_whole_weight = g.k % (Format::kStageColumns / Format::kBoxes) == 0,
      .is_whole_x = g.k % 64 == 0};
  const int64_t tiles = int64_t{params.row_tiles} * params.token_tiles;
  const int stage_bytes = StageBytes<Format>(rows);
  params.stages = std::min(kRingBytes / stage_bytes, kMaxStages);
  ROSE_CHECK(params.stages >= Format::kStepsPerChunk, "a chunk needs ", Format::kStepsPerChunk,
             " stages, there are ", params.stages);
  // Room to align the ring; behind it what is shared, or as much as the 64-row operand of the last
  // stage may reach beyond its own rows.
  const size_t behind =
      std::max<size_t>(sizeof(StreamShared<kTokens, Format::kGroups>), kTileRows * kRowBytes);
  const size_t smem = 1024 + params.stages * stage_bytes + behind;
  AllowSharedMemory(name, kernel, smem);
  Launch(name, kernel,
         {.grid = dim3(static_cast<unsigned>(std::min<int64_t>(tiles, sms))),
          .block = dim3(kStreamThreads<Format>),
          .smem_bytes = smem,
          .dependent = true},
         stream, params);
}

}  // namespace rose
