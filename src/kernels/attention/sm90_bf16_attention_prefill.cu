// Attention of tiles of rows, with warpgroup products. The order of sums is canonical.cuh's.
//
// Computes  out for the rows of the plan's tiles: 64 queries a warpgroup (tokens times the query
//           heads of a KV head, token-major) walk over the keys that any row of the tile sees.
// Work      persistent CTAs take (tile, KV head) in turn, of a sequence the longest walk first. One
//           warpgroup copies pages into a ring, the others compute: scores of the next page are
//           issued before the values of this one, so that the tensor cores have work while weights
//           are made. Offsets, sums, weights and values stay in registers.
// Bound     exponentials and the instructions around them; then the tensor cores.
// Measured  on one H200 (2026-11-30, median of 9 graphs): from an empty cache, 64 query and 8 KV heads
//           of 64: 2048 tokens 97 us, 8192 1.32 ms = 417 TFLOP/s, 32768 21 ms; window 128: 8192
//           tokens 134 us, 32768 519 us. 2048 tokens at 30000: 2.8 ms. 32 and 4 heads of 128: 8192
//           tokens 1.29 ms = 427 TFLOP/s.
#include <algorithm>

#include "base/check.h"
#include "device/launch.h"
#include "kernels/attention/canonical.cuh"
#include "kernels/attention/page_tile.cuh"
#include "kernels/attention/work.h"
#include "kernels/common/ptx/bulk_copy.cuh"
#include "kernels/common/ptx/warpgroup.cuh"
#include "kernels/common/ptx/wgmma.cuh"

namespace rose {
namespace {

struct PrefillParams {
  const Bf16* qkv;
  const Bf16* keys;
  const Bf16* values;
  const Bf16* sinks;
  Bf16* out;
  const int32_t* pages;
  const WorkCounts* counts;
  const RowTile* tiles;
  int64_t qkv_stride;
  int heads, kv_heads, group;  // group: query heads of a KV head
  int window;
  float scale;  // of scores, in powers of two
};

// Sizes by head dimension: registers decide how many warpgroups compute.
template <int kDim>
struct Sizes {
  static constexpr int kGroups = kDim == 64 ? 3 : 2;  // warpgroups that compute
  static constexpr int kThreads = (kGroups + 1) * 128;
  static constexpr int kComputeRegisters = kDim == 64 ? 160 : 240;
  static constexpr int kCopyRegisters = kDim == 64 ? 32 : 24;
  static constexpr int kStages = kDim == 64 ? 8 : 5;
  static constexpr int kLag = 3;  // pages that are under way before the first is waited for
  static constexpr int kPanels = kDim / 64;
};

// Rows of 64 dims, 128 bytes, swizzled: panel p has dims [64 p, 64 p + 64).
using Panel = uint16_t[64 * 64];

template <int kDim>
struct PrefillShared {
  using S = Sizes<kDim>;
  Panel queries[S::kGroups][S::kPanels];
  Panel keys[S::kStages][S::kPanels];
  Panel values[S::kStages][S::kPanels];
  uint64_t full[S::kStages];   // 4 warps that copied
  uint64_t empty[S::kStages];  // the warps that computed
};

// What a CTA computes at a time, and which pages that needs.
struct Unit {
  RowTile tile;
  int kv_head;
  int first, last;  // positions that some row sees
  int page, end;    // pages of those
};

// The unit of a round: the order of CTAs turns round by round, so that their work is even.
__device__ bool TakeUnit(const PrefillParams& p, int round, int units, Unit& unit) {
  const int ctas = gridDim.x, cta = blockIdx.x;
  const int at = round * ctas + (round % 2 == 0 ? cta : ctas - 1 - cta);
  if (at >= units) return false;
  unit.tile = p.tiles[at / p.kv_heads];
  unit.kv_head = at % p.kv_heads;
  unit.first = p.window > 0 ? max(0, unit.tile.position - p.window + 1) : 0;
  unit.last = unit.tile.position + unit.tile.rows - 1;
  unit.page = unit.first / kPage;
  unit.end = unit.last / kPage + 1;
  return true;
}

// Where a ring has come to.
template <int kStages>
struct RingPlace {
  int stage = 0;
  uint32_t parity = 0;
  __device__ void Advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

template <int kDim>
__device__ void CopyPage(const PrefillParams& p, PrefillShared<kDim>& shared, const Unit& unit,
                         int64_t page, int position, int stage) {
  constexpr int kChunks = kDim / 8;
  const int64_t base = (page * p.kv_heads + unit.kv_head) * (kPage * kDim);
  const uint32_t keys = ptx::SharedAddress(shared.keys[stage]);
  const uint32_t values = ptx::SharedAddress(shared.values[stage]);
  const int thread = threadIdx.x % 128;
#pragma unroll
  for (int i = thread; i < kPage * kChunks; i += 128) {
    const int row = i / kChunks, chunk = i % kChunks, at = position + row;
    const uint32_t to = chunk / 8 * sizeof(Panel) + TileByte<64>(row, chunk % 8);
    const bool is_there = at >= unit.first && at <= unit.last;
    CopyAsync(keys + to, p.keys + base + i * 8, is_there);
    CopyAsync(values + to, p.values + base + i * 8, is_there);
  }
  CommitCopies();
}

// Tells those who compute that the oldest page under way but `kUnderWay` is there.
template <int kUnderWay>
__device__ void Deliver(uint64_t* full) {
  WaitForCopies<kUnderWay>();
  ptx::FenceAsync();  // wgmma reads what cp.async wrote
  __syncwarp();
  if (threadIdx.x % 32 == 0) ptx::BarrierArrive(full);
}

template <int kDim>
__device__ void CopyPages(const PrefillParams& p, PrefillShared<kDim>& shared, int units) {
  using S = Sizes<kDim>;
  RingPlace<S::kStages> to, delivered;
  to.parity = 1;  // an empty ring may be written
  int under_way = 0;
  Unit unit;
  for (int round = 0; TakeUnit(p, round, units, unit); ++round) {
    const int32_t* pages = p.pages + unit.tile.pages_at;
    int32_t next = pages[unit.page];
    for (int page = unit.page; page < unit.end; ++page) {
      const int64_t now = next;
      if (page + 1 < unit.end) next = pages[page + 1];
      ptx::BarrierWait(&shared.empty[to.stage], to.parity);
      CopyPage(p, shared, unit, now, page * kPage, to.stage);
      to.Advance();
      if (++under_way > S::kLag) {
        Deliver<S::kLag>(&shared.full[delivered.stage]);
        delivered.Advance();
        --under_way;
      }
    }
  }
  WaitForCopies<0>();
  for (; under_way > 0; --under_way) {
    Deliver<0>(&shared.full[delivered.stage]);
    delivered.Advance();
  }
}

// What a thread knows of its two rows, [0] of lane / 4 and [1] 8 further in the warp's 16.
struct Rows {
  int position[2];  // -1: no such row
  int64_t row[2];   // in the step
  int head[2];
  float offset[2], sum[2];
  Merged merged[2];
  float factor[2];  // of the values before the page at hand
};

template <int kDim>
__device__ void LoadQueries(const PrefillParams& p, PrefillShared<kDim>& shared, const Unit& unit,
                            int group) {
  constexpr int kChunks = kDim / 8;
  const int thread = threadIdx.x % 128;
  uint8_t* to = reinterpret_cast<uint8_t*>(shared.queries[group]);
#pragma unroll 4
  for (int i = thread; i < 64 * kChunks; i += 128) {
    const int row = i / kChunks, chunk = i % kChunks, query = group * 64 + row;
    const int token = query / p.group, head = unit.kv_head * p.group + query % p.group;
    uint4 q{};
    if (token < unit.tile.rows) {
      q = *reinterpret_cast<const uint4*>(p.qkv + (unit.tile.row + token) * p.qkv_stride +
                                          head * kDim + chunk * 8);
    }
    *reinterpret_cast<uint4*>(to + chunk / 8 * sizeof(Panel) + TileByte<64>(row, chunk % 8)) = q;
  }
  ptx::FenceAsync();                  // wgmma reads them
  ptx::NamedBarrier(1 + group, 128);  // of the whole warpgroup
}

__device__ inline void BeginRows(const PrefillParams& p, const Unit& unit, int group, Rows& rows) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int query = group * 64 + warp * 16 + lane / 4 + 8 * h;
    const int token = query / p.group;
    rows.position[h] = token < unit.tile.rows ? unit.tile.position + token : -1;
    rows.row[h] = unit.tile.row + token;
    rows.head[h] = unit.kv_head * p.group + query % p.group;
    rows.offset[h] = kNothing;
    rows.sum[h] = 0;
    rows.merged[h] = {};
  }
}

// -inf for keys that a row does not see; `position` is that of the page's first key.
__device__ inline void Mask(const PrefillParams& p, const Rows& rows, int position,
                            float (&s)[32]) {
  const int column = position + threadIdx.x % 4 * 2;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int at = rows.position[h];
    const int first = p.window > 0 ? at - p.window + 1 : 0;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int key = column + n * 8 + i;
        if (key > at || key < first) s[n * 4 + h * 2 + i] = kNothing;
      }
    }
  }
}

// Turns scores into weights, and takes account of them in offsets and sums. True if the values
// before are to be multiplied by rows.factor.
__device__ inline bool Weights(const PrefillParams& p, Rows& rows, float (&s)[32]) {
  float top[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    top[h] = fmaxf(s[h * 2], s[h * 2 + 1]);
#pragma unroll
    for (int n = 1; n < 8; ++n) {
      top[h] = fmaxf(top[h], fmaxf(s[n * 4 + h * 2], s[n * 4 + h * 2 + 1]));
    }
  }
  // A row grows if and only if one of its four lanes sees it grow.
  const bool grows = __any_sync(
      ~0u, Grows(rows.offset[0], top[0], p.scale) || Grows(rows.offset[1], top[1], p.scale));
  if (grows) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      top[h] = QuadMax(top[h]);
      rows.factor[h] = 1;
      if (Grows(rows.offset[h], top[h], p.scale)) {
        const float offset = __fmul_rn(top[h], p.scale);
        rows.factor[h] = Exp2(__fsub_rn(rows.offset[h], offset));
        rows.offset[h] = offset;
        rows.sum[h] = __fmul_rn(rows.sum[h], rows.factor[h]);
      }
    }
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float base = Base(rows.offset[h]);
    LaneSum sum;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      float& a = s[n * 4 + h * 2];
      float& b = s[n * 4 + h * 2 + 1];
      a = Weigh(a, p.scale, base);
      b = Weigh(b, p.scale, base);
      sum.Add(a, b);
    }
    rows.sum[h] = __fadd_rn(rows.sum[h], sum.sum);
  }
  return grows;
}

__device__ inline void Pack(const float (&s)[32], uint32_t (&weights)[16]) {
#pragma unroll
  for (int i = 0; i < 16; ++i) weights[i] = PackBf16(s[2 * i], s[2 * i + 1]);
}

template <int kPanels>
__device__ void MergeSplit(Rows& rows, const float (&offset)[2], const float (&sum)[2],
                           const float (&o)[kPanels][32], float (&merged)[kPanels][32]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const MergeFactors factors = Merge(rows.merged[h], offset[h], QuadSum(sum[h]));
#pragma unroll
    for (int d = 0; d < kPanels; ++d) {
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int i = n * 4 + h * 2; i < n * 4 + h * 2 + 2; ++i) {
          merged[d][i] = factors.Apply(merged[d][i], o[d][i]);
        }
      }
    }
  }
}

template <int kDim>
__device__ void Store(const PrefillParams& p, const Rows& rows,
                      const float (&merged)[kDim / 64][32]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (rows.position[h] < 0) continue;
    const float factor =
        FinalFactor(rows.merged[h], p.sinks ? Widen(p.sinks[rows.head[h]]) : kNothing);
    Bf16* out = p.out + (rows.row[h] * p.heads + rows.head[h]) * kDim + threadIdx.x % 4 * 2;
#pragma unroll
    for (int d = 0; d < kDim / 64; ++d) {
#pragma unroll
      for (int n = 0; n < 8; ++n) {
        const float* v = &merged[d][n * 4 + h * 2];
        *reinterpret_cast<uint32_t*>(out + d * 64 + n * 8) =
            PackBf16(__fmul_rn(v[0], factor), __fmul_rn(v[1], factor));
      }
    }
  }
}

// s = queries . keys of a stage; enqueued, as one group.
template <int kDim>
__device__ void IssueScores(PrefillShared<kDim>& shared, int group, int stage, float (&s)[32]) {
  ptx::ProductFence();
#pragma unroll
  for (int d = 0; d < kDim / 64; ++d) {
    const uint64_t q = ptx::TileDescriptor(shared.queries[group][d]),
                   k = ptx::TileDescriptor(shared.keys[stage][d]);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      ptx::WarpgroupProduct<64>::Shared(s, q + i * 2, k + i * 2, d + i > 0);
  }
  ptx::ProductCommit();
}

// o = weights . values of a stage, added to o unless `is_first`; enqueued, as one group.
template <int kDim>
__device__ void IssueValues(PrefillShared<kDim>& shared, int stage, const uint32_t (&weights)[16],
                            bool is_first, float (&o)[kDim / 64][32]) {
  ptx::ProductFence();
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int d = 0; d < kDim / 64; ++d) {
      ptx::WarpgroupProduct<64>::Registers<1>(
          o[d], &weights[i * 4], ptx::TileDescriptor(shared.values[stage][d]) + i * 128,
          i > 0 || !is_first);
    }
  }
  ptx::ProductCommit();
}

template <int kDim>
__device__ void ComputeUnit(const PrefillParams& p, PrefillShared<kDim>& shared, const Unit& unit,
                            int group, RingPlace<Sizes<kDim>::kStages>& from) {
  constexpr int kPanels = kDim / 64;
  Rows rows;
  float s[32], o[kPanels][32], merged[kPanels][32];
  uint32_t weights[16];
#pragma unroll
  for (auto& panel : merged) {
#pragma unroll
    for (float& v : panel) v = 0;
  }
  LoadQueries(p, shared, unit, group);
  BeginRows(p, unit, group, rows);
  // Positions that the warpgroup's rows have, for masks.
  const int lowest = unit.tile.position + group * 64 / p.group;
  const int highest = unit.tile.position + min(unit.tile.rows - 1, (group * 64 + 63) / p.group);
  const auto mask = [&](int page) {
    const int position = page * kPage;
    if (position + kPage - 1 > lowest || (p.window > 0 && position < highest - p.window + 1)) {
      Mask(p, rows, position, s);
    }
  };

  ptx::BarrierWait(&shared.full[from.stage], from.parity);
  IssueScores(shared, group, from.stage, s);
  ptx::ProductWait<0>();
  mask(unit.page);
  Weights(p, rows, s);
  Pack(s, weights);
  bool is_first = true;  // page of a split
  for (int page = unit.page; page + 1 < unit.end; ++page) {
    const int stage = from.stage;
    from.Advance();
    ptx::BarrierWait(&shared.full[from.stage], from.parity);
    IssueScores(shared, group, from.stage, s);
    IssueValues<kDim>(shared, stage, weights, is_first, o);
    const bool ends_split = page % kSplitPages == kSplitPages - 1;
    const float offset[2] = {rows.offset[0], rows.offset[1]}, sum[2] = {rows.sum[0], rows.sum[1]};
    if (ends_split) {
      rows.offset[0] = rows.offset[1] = kNothing;
      rows.sum[0] = rows.sum[1] = 0;
    }
    ptx::ProductWait<1>();  // the scores; the values are under way
    mask(page + 1);
    const bool grows = Weights(p, rows, s);
    ptx::ProductWait<0>();  // the values
    if (threadIdx.x % 32 == 0) ptx::BarrierArrive(&shared.empty[stage]);
    if (ends_split) {
      MergeSplit<kPanels>(rows, offset, sum, o, merged);
    } else if (grows) {
#pragma unroll
      for (auto& panel : o) {
#pragma unroll
        for (int i = 0; i < 32; ++i) panel[i] = __fmul_rn(panel[i], rows.factor[i / 2 % 2]);
      }
    }
    is_first = ends_split;
    Pack(s, weights);
  }
  IssueValues<kDim>(shared, from.stage, weights, is_first, o);
  ptx::ProductWait<0>();
  if (threadIdx.x % 32 == 0) ptx::BarrierArrive(&shared.empty[from.stage]);
  from.Advance();
  MergeSplit<kPanels>(rows, rows.offset, rows.sum, o, merged);
  Store<kDim>(p, rows, merged);
}

template <int kDim>
__global__ void __launch_bounds__(Sizes<kDim>::kThreads, 1)
    sm90_bf16_attention_prefill_kernel(const __grid_constant__ PrefillParams p) {
  using S = Sizes<kDim>;
  extern __shared__ __align__(1024) uint8_t memory[];
  auto& shared = *reinterpret_cast<PrefillShared<kDim>*>(memory);
  if (threadIdx.x == 0) {
    for (int i = 0; i < S::kStages; ++i) {
      ptx::BarrierInit(&shared.full[i], 4);
      ptx::BarrierInit(&shared.empty[i], S::kGroups * 4);
    }
    ptx::BarriersReady();
  }
  __syncthreads();  // the barriers are there
  const int units = p.counts->tiles * p.kv_heads;
  const int group = threadIdx.x / 128;
  if (group == S::kGroups) {
    ptx::RegistersDown<S::kCopyRegisters>();
    CopyPages(p, shared, units);
  } else {
    ptx::RegistersUp<S::kComputeRegisters>();
    RingPlace<S::kStages> from;
    Unit unit;
    for (int round = 0; TakeUnit(p, round, units, unit); ++round) {
      ComputeUnit<kDim>(p, shared, unit, group, from);
      ptx::NamedBarrier(1 + group, 128);  // all warps have read the queries: the next go over them
    }
  }
}

template <int kDim>
void LaunchPrefill(const PrefillParams& prefill, int64_t bound, cudaStream_t stream) {
  using S = Sizes<kDim>;
  constexpr size_t kBytes = sizeof(PrefillShared<kDim>);
  static_assert(kBytes <= 227 * 1024, "a CTA has 227 KB at most");
  CudaCheck(cudaFuncSetAttribute(sm90_bf16_attention_prefill_kernel<kDim>,
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
            "sm90_bf16_attention_prefill");
  int device = 0, sms = 0;
  CudaCheck(cudaGetDevice(&device), "asking for the device");
  CudaCheck(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device), "counting SMs");
  const auto ctas = static_cast<unsigned>(std::min<int64_t>(bound * prefill.kv_heads, sms));
  Launch("sm90_bf16_attention_prefill", sm90_bf16_attention_prefill_kernel<kDim>,
         {.grid = dim3(ctas), .block = dim3(S::kThreads), .smem_bytes = kBytes}, stream, prefill);
}

}  // namespace

int PrefillQueries(int64_t head_dim) {
  return (head_dim == 64 ? Sizes<64>::kGroups : Sizes<128>::kGroups) * 64;
}

void LaunchPrefillAttention(const AttentionParams& params, cudaStream_t stream) {
  const AttentionLimits& limits = params.limits;
  const AttentionWork work = LayOutWork(limits, params.workspace, nullptr);
  const PrefillParams prefill{.qkv = params.qkv,
                              .keys = params.keys,
                              .values = params.values,
                              .sinks = params.sinks,
                              .out = params.out,
                              .pages = params.step.pages,
                              .counts = work.counts,
                              .tiles = work.tiles,
                              .qkv_stride = params.qkv_stride,
                              .heads = static_cast<int>(limits.heads),
                              .kv_heads = static_cast<int>(limits.kv_heads),
                              .group = static_cast<int>(limits.heads / limits.kv_heads),
                              .window = static_cast<int>(limits.window),
                              .scale = ScoreScale(limits.head_dim)};
  const int64_t bound = params.step.rows / work.tile_rows + params.step.seq_count;
  if (limits.head_dim == 64) {
    LaunchPrefill<64>(prefill, bound, stream);
  } else {
    LaunchPrefill<128>(prefill, bound, stream);
  }
}

}  // namespace rose
