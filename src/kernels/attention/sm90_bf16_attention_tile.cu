// Attention of tiles of rows, with warp-level products. The order of sums is canonical.cuh's.
//
// Computes  out for the rows of the plan's tiles: 64 queries (tokens times the query heads of a KV
//           head, token-major) of a KV head walk over the keys that any of them sees.
// Work      one CTA of four warps a tile and KV head; a warp holds 16 queries, their scores,
// weights
//           and values in registers. Pages are copied a page ahead.
// Bound     the tensor core's mma.sync rate, and latency: four warps wait for each other's page.
// Measured  on one H200 (2026-11-30): 8192 tokens from an empty cache, 64 heads of 64: 2.8 ms = 194
//           TFLOP/s. Not tuned: it serves head sizes that have no kernel of their own.
#include <algorithm>

#include "base/check.h"
#include "device/launch.h"
#include "kernels/attention/canonical.cuh"
#include "kernels/attention/page_tile.cuh"
#include "kernels/attention/work.h"

namespace rose {
namespace {

constexpr int kThreads = 128;

// A tile's keys and values of two pages.
template <int kDim>
struct TileShared {
  uint16_t keys[2][kPage * kDim];
  uint16_t values[2][kPage * kDim];
};

// Keys and values of `page` to stage `stage`: zeros for positions outside [first, last], and dims
// that the head does not have.
template <int kDim>
__device__ void CopyPage(const AttendParams& p, TileShared<kDim>& shared, int stage, int64_t page,
                         int position, int first, int last) {
  constexpr int kChunks = kDim / 8;
  const int64_t base = (page * p.kv_heads + blockIdx.y) * kPage * p.dim;
  const uint32_t keys = ptx::SharedAddress(shared.keys[stage]);
  const uint32_t values = ptx::SharedAddress(shared.values[stage]);
  for (int i = threadIdx.x; i < kPage * kChunks; i += kThreads) {
    const int row = i / kChunks, chunk = i % kChunks;
    const bool is_there = position + row >= first && position + row <= last && chunk * 8 < p.dim;
    const int64_t from = is_there ? base + row * p.dim + chunk * 8 : 0;
    CopyAsync(keys + TileByte<kDim>(row, chunk), p.keys + from, is_there);
    CopyAsync(values + TileByte<kDim>(row, chunk), p.values + from, is_there);
  }
  CommitCopies();
}

// What a thread holds of its two rows, [0] of lane / 4 and [1] 8 further.
template <int kDim>
struct Rows {
  static constexpr int kSteps = kDim / 16;  // MMA steps over the dims
  int position[2];                          // -1: no such row
  int64_t q_at[2], out_at[2];
  float sink[2];
  uint32_t q[kSteps][4];
  float offset[2], sum[2], values[kDim / 8][4];
  Merged merged[2];
  float merged_values[kDim / 8][4];
};

template <int kDim>
__device__ void LoadRows(const AttendParams& p, const RowTile& tile, Rows<kDim>& rows) {
  const int lane = threadIdx.x % 32, column = lane % 4 * 2;
  for (int h = 0; h < 2; ++h) {
    const int query = threadIdx.x / 32 * 16 + lane / 4 + 8 * h;
    const int token = query / p.group, head = blockIdx.y * p.group + query % p.group;
    const bool is_row = token < tile.rows;
    const int64_t row = tile.row + (is_row ? token : 0);
    rows.position[h] = is_row ? tile.position + token : -1;
    rows.q_at[h] = row * p.qkv_stride + int64_t{head} * p.dim;
    rows.out_at[h] = (row * p.heads + head) * p.dim;
    rows.sink[h] = p.sinks ? Widen(p.sinks[head]) : kNothing;
    for (int step = 0; step < Rows<kDim>::kSteps; ++step) {
      for (int half = 0; half < 2; ++half) {
        const int d = step * 16 + half * 8 + column;
        rows.q[step][half * 2 + h] =
            is_row && d < p.dim ? *reinterpret_cast<const uint32_t*>(p.qkv + rows.q_at[h] + d) : 0;
      }
    }
    rows.merged[h] = {};
    for (auto& v : rows.merged_values) v[h * 2] = v[h * 2 + 1] = 0;
  }
}

template <int kDim>
__device__ void BeginSplit(Rows<kDim>& rows) {
  for (int h = 0; h < 2; ++h) {
    rows.offset[h] = kNothing;
    rows.sum[h] = 0;
    for (auto& v : rows.values) v[h * 2] = v[h * 2 + 1] = 0;
  }
}

template <int kDim>
__device__ void EndSplit(Rows<kDim>& rows) {
  for (int h = 0; h < 2; ++h) {
    const MergeFactors factors = Merge(rows.merged[h], rows.offset[h], QuadSum(rows.sum[h]));
    for (int n = 0; n < kDim / 8; ++n) {
      for (int i = h * 2; i < h * 2 + 2; ++i) {
        rows.merged_values[n][i] = factors.Apply(rows.merged_values[n][i], rows.values[n][i]);
      }
    }
  }
}

// Scores of a page's keys, `position` that of the first; -inf where a row does not see one.
template <int kDim>
__device__ void Scores(const AttendParams& p, const Rows<kDim>& rows, const uint16_t* keys,
                       int position, float (&s)[8][4]) {
  const int lane = threadIdx.x % 32;
  const uint32_t base = ptx::SharedAddress(keys);
  for (int n = 0; n < 8; ++n) {
    for (float& x : s[n]) x = 0;
    for (int step = 0; step < kDim / 16; step += 2) {
      const uint4 k =
          ptx::LoadMatrix4(base + TileByte<kDim>(n * 8 + lane % 8, step * 2 + lane / 8));
      ptx::MmaBf16(s[n], rows.q[step], k.x, k.y);
      ptx::MmaBf16(s[n], rows.q[step + 1], k.z, k.w);
    }
    for (int i = 0; i < 4; ++i) {
      const int key = position + n * 8 + lane % 4 * 2 + i % 2, at = rows.position[i / 2];
      if (key > at || (p.window > 0 && key <= at - p.window)) s[n][i] = kNothing;
    }
  }
}

// Turns scores into weights, and takes account of them in the rows' offsets and sums.
template <int kDim>
__device__ void Weights(const AttendParams& p, Rows<kDim>& rows, float (&s)[8][4]) {
  for (int h = 0; h < 2; ++h) {
    float top = kNothing;
    for (int n = 0; n < 8; ++n) top = fmaxf(top, fmaxf(s[n][h * 2], s[n][h * 2 + 1]));
    top = QuadMax(top);
    if (Grows(rows.offset[h], top, p.scale)) {
      const float offset = __fmul_rn(top, p.scale);
      const float factor = Exp2(__fsub_rn(rows.offset[h], offset));
      rows.offset[h] = offset;
      rows.sum[h] = __fmul_rn(rows.sum[h], factor);
      for (auto& v : rows.values) {
        v[h * 2] = __fmul_rn(v[h * 2], factor);
        v[h * 2 + 1] = __fmul_rn(v[h * 2 + 1], factor);
      }
    }
    const float base = Base(rows.offset[h]);
    LaneSum lane_sum;
    for (int n = 0; n < 8; ++n) {
      for (int i = h * 2; i < h * 2 + 2; ++i) s[n][i] = Weigh(s[n][i], p.scale, base);
      lane_sum.Add(s[n][h * 2], s[n][h * 2 + 1]);
    }
    rows.sum[h] = __fadd_rn(rows.sum[h], lane_sum.sum);
  }
}

template <int kDim>
__device__ void AddValues(Rows<kDim>& rows, const uint16_t* values, const float (&s)[8][4]) {
  const int lane = threadIdx.x % 32;
  const uint32_t base = ptx::SharedAddress(values);
  for (int step = 0; step < 4; ++step) {  // 16 keys each
    const float(&low)[4] = s[step * 2];
    const float(&high)[4] = s[step * 2 + 1];
    const uint32_t weights[4] = {PackBf16(low[0], low[1]), PackBf16(low[2], low[3]),
                                 PackBf16(high[0], high[1]), PackBf16(high[2], high[3])};
    for (int n = 0; n < kDim / 8; n += 2) {
      uint32_t v[4];
      LoadTransposed(v, base + TileByte<kDim>(step * 16 + lane % 16, n + lane / 16));
      ptx::MmaBf16(rows.values[n], weights, v[0], v[1]);
      ptx::MmaBf16(rows.values[n + 1], weights, v[2], v[3]);
    }
  }
}

template <int kDim>
__device__ void Store(const AttendParams& p, const Rows<kDim>& rows) {
  const int column = threadIdx.x % 4 * 2;
  for (int h = 0; h < 2; ++h) {
    if (rows.position[h] < 0) continue;
    const float factor = FinalFactor(rows.merged[h], rows.sink[h]);
    for (int n = 0; n < kDim / 8; ++n) {
      if (n * 8 >= p.dim) break;
      *reinterpret_cast<uint32_t*>(p.out + rows.out_at[h] + n * 8 + column) =
          PackBf16(__fmul_rn(rows.merged_values[n][h * 2], factor),
                   __fmul_rn(rows.merged_values[n][h * 2 + 1], factor));
    }
  }
}

template <int kDim>
__global__ void __launch_bounds__(kThreads)
    sm90_bf16_attention_tile_kernel(const __grid_constant__ AttendParams p) {
  extern __shared__ __align__(1024) uint8_t memory[];
  auto& shared = *reinterpret_cast<TileShared<kDim>*>(memory);
  if (static_cast<int>(blockIdx.x) >= p.work.counts->tiles) return;
  const RowTile tile = p.work.tiles[blockIdx.x];
  Rows<kDim> rows;
  LoadRows(p, tile, rows);

  const int first = p.window > 0 ? max(0, tile.position - p.window + 1) : 0;
  const int last = tile.position + tile.rows - 1;
  const int32_t* pages = p.pages + tile.pages_at;
  const int end = last / kPage + 1;
  int page = first / kPage;
  CopyPage<kDim>(p, shared, 0, pages[page], page * kPage, first, last);
  BeginSplit(rows);
  for (int stage = 0; page < end; ++page, stage ^= 1) {
    if (page + 1 < end) {
      CopyPage<kDim>(p, shared, stage ^ 1, pages[page + 1], (page + 1) * kPage, first, last);
      WaitForCopies<1>();
    } else {
      WaitForCopies<0>();
    }
    __syncthreads();  // everyone's copies of this page are there
    float s[8][4];
    Scores(p, rows, shared.keys[stage], page * kPage, s);
    Weights(p, rows, s);
    AddValues(rows, shared.values[stage], s);
    if (page % kSplitPages == kSplitPages - 1 || page + 1 == end) {
      EndSplit(rows);
      BeginSplit(rows);
    }
    __syncthreads();  // everyone has read the page: the next copy goes over it
  }
  Store(p, rows);
}

template <int kDim>
void LaunchTiles(const AttendParams& tiles, int64_t bound, cudaStream_t stream) {
  constexpr size_t kBytes = sizeof(TileShared<kDim>);
  AllowSharedMemory("sm90_bf16_attention_tile", sm90_bf16_attention_tile_kernel<kDim>, kBytes);
  Launch("sm90_bf16_attention_tile", sm90_bf16_attention_tile_kernel<kDim>,
         {.grid = dim3(static_cast<unsigned>(bound), static_cast<unsigned>(tiles.kv_heads)),
          .block = dim3(kThreads),
          .smem_bytes = kBytes},
         stream, tiles);
}

}  // namespace

void LaunchTileAttention(const AttentionParams& params, cudaStream_t stream) {
  const AttendParams tiles = MakeAttendParams(params);
  const int64_t bound = TileBound(params, tiles.work);
  if (tiles.dim <= 64) {
    LaunchTiles<64>(tiles, bound, stream);
  } else {
    LaunchTiles<128>(tiles, bound, stream);
  }
}

}  // namespace rose
