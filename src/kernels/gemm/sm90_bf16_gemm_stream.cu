// Computes  out = x . weight^T + bias  for few tokens, in the order that gemm.h gives.
// Work      a CTA owns `rows` rows of the weight (at most 64; chosen so that every SM has the same
//           number) over all of k, so no sum leaves it. One warp fills a ring of stages of 128
//           columns by bulk copies; one warpgroup multiplies: the rows are the 64-row operand
//           (those that are not the tile's hold leftovers, and their sums are dropped), the tokens
//           the narrow one.
// Bound     memory: 2 * n * k bytes. The weights of a whole ring are under way before the kernel
//           waits for the one ahead of it.
// Requires  k a multiple of 8, 16-byte alignment.
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

constexpr int kThreads = 160;  // a warpgroup that multiplies, a warp that copies
constexpr int kColumns = 64;   // of a box: 128 bytes
constexpr int kBoxes = 2;      // of a stage
constexpr int kStepsPerChunk = 512 / (kColumns * kBoxes);
constexpr int kTileRows = 64;
constexpr int kRowBytes = kColumns * sizeof(Bf16);
constexpr int kMaxStages = 32;
constexpr int kRingBytes = 200 * 1024;

struct StreamParams {
  CUtensorMap weight_map;  // boxes of `rows` rows
  CUtensorMap x_map;       // boxes of kTokens rows
  GemmParams gemm;
  int rows = 0;  // of the weight, a tile
  int row_tiles = 0, token_tiles = 0;
  int steps = 0;  // stages of a row; columns behind k are zeros
  int stages = 0;
};

struct Barriers {
  uint64_t full[kMaxStages];   // the copying lane, and the stage's bytes
  uint64_t empty[kMaxStages];  // a lane of each multiplying warp
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

template <int kTokens>
class Stream {
 public:
  __device__ Stream(const StreamParams& p, uint8_t* ring, Barriers& barriers)
      : p_(p),
        ring_(ring),
        barriers_(barriers),
        tiles_(p.row_tiles * p.token_tiles),
        steps_(p.steps),
        weight_bytes_(BoxBytes(p.rows)),
        stage_bytes_(kBoxes * (weight_bytes_ + BoxBytes(kTokens))) {}

  // The copying lane. Weights do not depend on the kernels ahead, so a ring of them is asked for
  // before the wait for those; x comes after it.
  __device__ void Copy() {
    Cursor first{.tile = static_cast<int>(blockIdx.x)};
    Cursor at = first;
    for (int i = 0; i < p_.stages && at.tile < tiles_; ++i, Advance(at)) CopyWeights(at);
    ptx::DependencyWait();
    Cursor x = first;
    for (int i = 0; i < p_.stages && x.tile < tiles_; ++i, Advance(x)) CopyX(x);
    for (; at.tile < tiles_; Advance(at)) {
      // The multiplying warps are done with what the slot held.
      ptx::BarrierWait(&barriers_.empty[at.slot], at.phase ^ 1);
      CopyWeights(at);
      CopyX(at);
    }
  }

  // The multiplying warpgroup.
  __device__ void Multiply() {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    Cursor at{.tile = static_cast<int>(blockIdx.x)};
    while (at.tile < tiles_) {
      const int tile = at.tile;
      const int64_t n = int64_t{tile % p_.row_tiles} * p_.rows + warp * 16 + lane / 4;
      const float bias[2] = {n < p_.gemm.n ? BiasOf(p_.gemm.bias, n) : 0,
                             n + 8 < p_.gemm.n ? BiasOf(p_.gemm.bias, n + 8) : 0};
      float total[kTokens / 2];
      for (int step = 0; step < steps_; step += kStepsPerChunk) {
        float sum[kTokens / 2];
        Chunk(at, min(kStepsPerChunk, steps_ - step), sum);
        for (int i = 0; i < kTokens / 2; ++i) total[i] = step == 0 ? sum[i] : total[i] + sum[i];
      }
      Store(tile, n, bias, total);
    }
  }

 private:
  __device__ void Advance(Cursor& at) const { at.Advance(steps_, p_.stages); }
  __device__ uint8_t* Weights(int slot) const { return ring_ + slot * stage_bytes_; }
  __device__ uint8_t* X(int slot) const { return Weights(slot) + kBoxes * weight_bytes_; }

  __device__ void CopyWeights(const Cursor& at) const {
    uint64_t* full = &barriers_.full[at.slot];
    ptx::BarrierExpect(full, kBoxes * (p_.rows + kTokens) * kRowBytes);
    for (int b = 0; b < kBoxes; ++b) {
      ptx::CopyBox(Weights(at.slot) + b * weight_bytes_, p_.weight_map,
                   (at.step * kBoxes + b) * kColumns, at.tile % p_.row_tiles * p_.rows, full);
    }
  }

  __device__ void CopyX(const Cursor& at) const {
    for (int b = 0; b < kBoxes; ++b) {
      ptx::CopyBox(X(at.slot) + b * BoxBytes(kTokens), p_.x_map, (at.step * kBoxes + b) * kColumns,
                   at.tile / p_.row_tiles * kTokens, &barriers_.full[at.slot]);
    }
  }

  // The sum over `steps` stages, from zero.
  __device__ void Chunk(Cursor& at, int steps, float (&sum)[kTokens / 2]) const {
    for (float& value : sum) value = 0;
    int before = -1;  // the slot whose products may be unfinished
    for (int s = 0; s < steps; ++s, Advance(at)) {
      ptx::BarrierWait(&barriers_.full[at.slot], at.phase);
      const uint64_t weights = ptx::TileDescriptor(Weights(at.slot));
      const uint64_t x = ptx::TileDescriptor(X(at.slot));
      ptx::ProductFence();
#pragma unroll
      for (int i = 0; i < kBoxes * kColumns / 16; ++i) {
        const int box = i / (kColumns / 16), k = i % (kColumns / 16);
        ptx::WarpgroupProduct<kTokens>::Shared(sum, weights + box * weight_bytes_ / 16 + 2 * k,
                                               x + box * BoxBytes(kTokens) / 16 + 2 * k, 1);
      }
      ptx::ProductCommit();
      ptx::ProductWait<1>();
      if (before >= 0) Release(before);
      before = at.slot;
    }
    ptx::ProductWait<0>();
    Release(before);
  }

  // This warp is done with the slot.
  __device__ void Release(int slot) const {
    if (threadIdx.x % 32 == 0) ptx::BarrierArrive(&barriers_.empty[slot]);
  }

  __device__ void Store(int tile, int64_t n, const float (&bias)[2],
                        const float (&total)[kTokens / 2]) const {
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;  // in the tile
    const int64_t token = int64_t{tile / p_.row_tiles} * kTokens + threadIdx.x % 4 * 2;
    for (int i = 0; i < kTokens / 2; ++i) {
      const int down = i / 2 % 2;  // the upper or the lower 8 of the warp's 16 rows
      const int64_t to_token = token + i / 4 * 8 + i % 2, to_n = n + down * 8;
      if (row + down * 8 < p_.rows && to_n < p_.gemm.n && to_token < p_.gemm.tokens) {
        StoreSum(p_.gemm, to_token, to_n, total[i] + bias[down]);
      }
    }
  }

  const StreamParams& p_;
  uint8_t* ring_;
  Barriers& barriers_;
  const int tiles_, steps_, weight_bytes_, stage_bytes_;
};

template <int kTokens>
__global__ void __launch_bounds__(kThreads, 1)
    sm90_bf16_gemm_stream_kernel(const __grid_constant__ StreamParams p) {
  extern __shared__ uint8_t memory[];
  uint8_t* ring =
      reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(memory) + 1023) / 1024 * 1024);
  const int stage_bytes = kBoxes * (BoxBytes(p.rows) + BoxBytes(kTokens));
  auto& barriers = *reinterpret_cast<Barriers*>(ring + p.stages * stage_bytes);
  ptx::DependencyLaunch();
  if (threadIdx.x == 0) {
    for (int i = 0; i < p.stages; ++i) {
      ptx::BarrierInit(&barriers.full[i], 1);
      ptx::BarrierInit(&barriers.empty[i], 4);
    }
    ptx::BarriersReady();
  }
  __syncthreads();  // the barriers are there
  Stream<kTokens> stream(p, ring, barriers);
  if (threadIdx.x / 32 == 4) {
    if (threadIdx.x % 32 == 0) stream.Copy();
    return;
  }
  stream.Multiply();
}

// The rows of a tile, so that `sms` SMs have as equal shares as 64-row tiles allow.
int PickRows(int64_t n, int sms) {
  const int64_t rounds = CeilDivide(n, int64_t{sms} * kTileRows);
  return static_cast<int>(std::clamp<int64_t>(CeilDivide(n, sms * rounds), 8, kTileRows));
}

template <int kTokens>
void LaunchStream(const GemmParams& g, cudaStream_t stream) {
  const int sms = Multiprocessors();
  const int rows = PickRows(g.n, sms);
  StreamParams params{
      .weight_map = MapMatrix(
          {.data = g.weight, .rows = g.n, .columns = g.k, .row_stride = g.k, .box_rows = rows}),
      .x_map = MapMatrix({.data = g.x,
                          .rows = g.tokens,
                          .columns = g.k,
                          .row_stride = g.x_stride,
                          .box_rows = kTokens}),
      .gemm = g,
      .rows = rows,
      .row_tiles = static_cast<int>(CeilDivide(g.n, rows)),
      .token_tiles = static_cast<int>(CeilDivide(g.tokens, kTokens)),
      .steps = static_cast<int>(CeilDivide(g.k, kColumns * kBoxes))};
  const int64_t tiles = int64_t{params.row_tiles} * params.token_tiles;
  const int stage_bytes = kBoxes * (BoxBytes(rows) + BoxBytes(kTokens));
  params.stages = std::min(kRingBytes / stage_bytes, kMaxStages);
  // Room to align the ring; behind it the barriers, in what the last stage's 64-row operand may
  // reach beyond its own rows.
  const size_t smem = 1024 + params.stages * stage_bytes + kTileRows * kRowBytes;
  static_assert(sizeof(Barriers) <= kTileRows * kRowBytes, "the barriers lie in that reach");
  constexpr auto kernel = sm90_bf16_gemm_stream_kernel<kTokens>;
  AllowSharedMemory("sm90_bf16_gemm_stream", kernel, smem);
  Launch("sm90_bf16_gemm_stream", kernel,
         {.grid = dim3(static_cast<unsigned>(std::min<int64_t>(tiles, sms))),
          .block = dim3(kThreads),
          .smem_bytes = smem,
          .dependent = true},
         stream, params);
}

}  // namespace

void LaunchGemmBf16Stream(const GemmParams& params, cudaStream_t stream) {
  if (params.tokens <= 8) return LaunchStream<8>(params, stream);
  if (params.tokens <= 16) return LaunchStream<16>(params, stream);
  if (params.tokens <= 32) return LaunchStream<32>(params, stream);
  LaunchStream<64>(params, stream);
}

}  // namespace rose
