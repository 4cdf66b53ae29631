// Attention of decode rows, split over their keys. The order of sums is canonical.cuh's.
//
// Computes  out for the rows of the plan's items: a CTA takes 8 query heads of one KV head of a row
//           and one split of 512 keys. Where a row has several items, each leaves its sums in the
//           workspace, for smxx_attention_merge.cu.
// Work      persistent CTAs take units (item, KV head, 8 heads) in turn. A warpgroup copies pages
// of
//           keys, then of values, into a ring, as far ahead as there is room. Eight warps compute:
//           first a warp has a page: its scores, and from all pages' maxima the offsets. Then a
//           warp has 8 or 16 dims of the values, and walks over the pages in order. The heads are
//           rows 0 to 7 of the products' 16; the rest are zeros and cost nothing that is scarce.
// Bound     memory: keys and values are read once for 8 heads.
// Measured  on one H200 (2026-11-30, 1.97 GHz, median of 9 graphs of 24 launches that rotate over
//           keys and values of 0.4 GB or more; with the merge, without the plan). 64 query and 8 KV
//           heads of 64: one row at 1024 keys 5.5 us, 8192 7.9 us, 32768 25 us; 8 rows at 8192 39
//           us, 32 rows 140 us, 128 rows 536 us = 4.0 TB/s. Window 128: one row 2.8 us, 128 rows 13
//           us. 32 and 4 heads of 128: one row at 8192 7.8 us, 32 rows 140 us = 3.8 TB/s.
#include <algorithm>

#include "base/check.h"
#include "device/launch.h"
#include "kernels/attention/canonical.cuh"
#include "kernels/attention/decode_copy.cuh"
#include "kernels/attention/page_tile.cuh"
#include "kernels/attention/work.h"
#include "kernels/common/ptx/bulk_copy.cuh"
#include "kernels/common/ptx/warpgroup.cuh"

namespace rose {
namespace {

// A thread's queries: of head lane / 4, dims 8 i + 2 (lane % 4) and the next.
template <int kDim>
struct Queries {
  uint32_t q[kDim / 8];
};

template <int kDim>
__device__ Queries<kDim> LoadQueries(const DecodeParams& p, const DecodeStep& step) {
  const int lane = threadIdx.x % 32;
  Queries<kDim> queries;
  const Bf16* q = p.qkv + step.item.row * p.qkv_stride + int64_t{step.head + lane / 4} * kDim;
#pragma unroll
  for (int i = 0; i < kDim / 8; ++i) {
    queries.q[i] = step.unit >= 0 && lane / 4 < step.heads
                       ? *reinterpret_cast<const uint32_t*>(q + i * 8 + lane % 4 * 2)
                       : 0;
  }
  return queries;
}

// The warp's page: scores of row lane / 4, keys 8 n + 2 (lane % 4) and the next.
template <int kDim>
__device__ void Scores(const DecodeStep& step, const Queries<kDim>& queries, const uint16_t* keys,
                       float (&s)[8][2]) {
  const int lane = threadIdx.x % 32, page = threadIdx.x / 32;
  const uint32_t base = ptx::SharedAddress(keys);
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    float c[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < kDim / 16; i += 2) {
      const uint4 k = ptx::LoadMatrix4(base + TileByte<kDim>(n * 8 + lane % 8, i * 2 + lane / 8));
      const uint32_t low[4] = {queries.q[i * 2], 0, queries.q[i * 2 + 1], 0};
      const uint32_t high[4] = {queries.q[i * 2 + 2], 0, queries.q[i * 2 + 3], 0};
      ptx::MmaBf16(c, low, k.x, k.y);
      ptx::MmaBf16(c, high, k.z, k.w);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int key = step.position(page) + n * 8 + lane % 4 * 2 + i;
      s[n][i] = key <= step.item.position && key >= step.first ? c[i] : kNothing;
    }
  }
}

// Turns the warp's scores into weights in shared memory, with the offset that the pages up to this
// one give.
template <int kDim>
__device__ void Weights(const DecodeParams& p, DecodeShared<kDim>& shared, bool sees,
                        float (&s)[8][2]) {
  const int lane = threadIdx.x % 32, page = threadIdx.x / 32, row = lane / 4;
  float offset = kNothing, factor = 1;
#pragma unroll
  for (int j = 0; j < kSplitPages; ++j) {
    if (j > page) break;
    const float top = shared.tops[j][row];
    factor = 1;
    if (Grows(offset, top, p.scale)) {
      const float next = __fmul_rn(top, p.scale);
      factor = Exp2(__fsub_rn(offset, next));
      offset = next;
    }
  }
  if (page == kSplitPages - 1 && lane % 4 == 0) shared.offsets[row] = offset;
  if (!sees) return;
  const float base = Base(offset);
  LaneSum sum;
  uint32_t* to = reinterpret_cast<uint32_t*>(&shared.weights[row][page * kPage + lane % 4 * 2]);
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    const float a = Weigh(s[n][0], p.scale, base), b = Weigh(s[n][1], p.scale, base);
    sum.Add(a, b);
    to[n * 4] = PackBf16(a, b);
  }
  shared.sums[page][row][lane % 4] = sum.sum;
  if (lane % 4 == 0) shared.factors[page][row] = factor;
}

// A thread's values of a row: dims 8 (warp * kTiles + n) + 2 (lane % 4) and the next, of lane / 4.
template <int kDim>
struct Values {
  static constexpr int kTiles = kDim / 8 / kDecodeWarps;
  float v[kTiles][2];
  float offset, sum;  // of the row
  __device__ static int Dim(int n) {
    return (static_cast<int>(threadIdx.x) / 32 * kTiles + n) * 8 + threadIdx.x % 4 * 2;
  }
};

template <int kDim>
__device__ Values<kDim> SplitValues(const DecodeStep& step, DecodeShared<kDim>& shared) {
  constexpr int kTiles = Values<kDim>::kTiles;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = lane / 4;
  float c[kTiles][4] = {};
  float sum = 0;
  for (int j = step.begin; j < step.end; ++j) {
    const float factor = shared.factors[j][row];
    sum = __fadd_rn(__fmul_rn(sum, factor), shared.sums[j][row][lane % 4]);
    const unsigned at = step.ValuesAt(j);
    const uint32_t base = ptx::SharedAddress(shared.ring[at % kDecodeStages]);
    ptx::BarrierWait(&shared.full[at % kDecodeStages], at / kDecodeStages % 2);
    const auto* weights =
        reinterpret_cast<const uint32_t*>(&shared.weights[row][j * kPage + lane % 4 * 2]);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      c[n][0] = __fmul_rn(c[n][0], factor);
      c[n][1] = __fmul_rn(c[n][1], factor);
    }
#pragma unroll
    for (int i = 0; i < 4; i += 2) {  // 16 keys each
      const uint32_t low[4] = {weights[i * 8], 0, weights[i * 8 + 4], 0};
      const uint32_t high[4] = {weights[i * 8 + 8], 0, weights[i * 8 + 12], 0};
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        uint32_t v[4];
        LoadTransposed(v, base + TileByte<kDim>(i * 16 + lane, warp * kTiles + n));
        ptx::MmaBf16(c[n], low, v[0], v[1]);
        ptx::MmaBf16(c[n], high, v[2], v[3]);
      }
    }
    __syncwarp();  // all lanes have read the page
    if (lane == 0) ptx::BarrierArrive(&shared.empty[at % kDecodeStages]);
  }
  Values<kDim> values;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    values.v[n][0] = c[n][0];
    values.v[n][1] = c[n][1];
  }
  values.offset = shared.offsets[row];
  values.sum = QuadSum(sum);
  return values;
}

// What a thread has merged of its row.
template <int kDim>
struct MergedValues {
  Merged row;
  float v[Values<kDim>::kTiles][2];

  __device__ void Clear() {
    row = {};
#pragma unroll
    for (auto& pair : v) pair[0] = pair[1] = 0;
  }
  __device__ void Add(const Values<kDim>& split) {
    const MergeFactors factors = Merge(row, split.offset, split.sum);
#pragma unroll
    for (int n = 0; n < Values<kDim>::kTiles; ++n) {
      v[n][0] = factors.Apply(v[n][0], split.v[n][0]);
      v[n][1] = factors.Apply(v[n][1], split.v[n][1]);
    }
  }
};

template <int kDim>
__device__ void Store(const DecodeParams& p, const DecodeStep& step,
                      const MergedValues<kDim>& merged) {
  const int row = threadIdx.x % 32 / 4;
  if (row >= step.heads) return;
  const int64_t head = step.head + row;
  const float factor = FinalFactor(merged.row, p.sinks ? Widen(p.sinks[head]) : kNothing);
  Bf16* out = p.out + (int64_t{step.item.row} * p.heads + head) * kDim;
#pragma unroll
  for (int n = 0; n < Values<kDim>::kTiles; ++n) {
    *reinterpret_cast<uint32_t*>(out + Values<kDim>::Dim(n)) =
        PackBf16(__fmul_rn(merged.v[n][0], factor), __fmul_rn(merged.v[n][1], factor));
  }
}

// Leaves a split's sums in the workspace: [head_dim] values, offset, sum of weights.
template <int kDim>
__device__ void LeavePartial(const DecodeParams& p, const DecodeStep& step,
                             const Values<kDim>& values) {
  const int row = threadIdx.x % 32 / 4;
  if (row >= step.heads) return;
  float* to = p.work.partials +
              (int64_t{step.item.slot + step.item.part} * p.heads + step.head + row) * (kDim + 2);
#pragma unroll
  for (int n = 0; n < Values<kDim>::kTiles; ++n) {
    *reinterpret_cast<float2*>(to + Values<kDim>::Dim(n)) =
        make_float2(values.v[n][0], values.v[n][1]);
  }
  if (threadIdx.x / 32 == 0 && threadIdx.x % 4 == 0) {
    *reinterpret_cast<float2*>(to + kDim) = make_float2(values.offset, values.sum);
  }
}

template <int kDim>
__device__ void Compute(const DecodeParams& p, DecodeShared<kDim>& shared, int units) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  DecodeStep step = FirstStep(p, blockIdx.x, units);
  ptx::DependencyWait();  // for the queries; whoever waits for this kernel waits for those ahead
  Queries<kDim> queries = LoadQueries<kDim>(p, step);
  MergedValues<kDim> merged;
  merged.Clear();
  while (step.unit >= 0) {
    const DecodeStep next = NextStep(p, step, units);
    const bool sees = step.Sees(warp);
    float s[8][2], top = kNothing;
    if (sees) {
      const unsigned at = step.KeysAt(warp);
      ptx::BarrierWait(&shared.full[at % kDecodeStages], at / kDecodeStages % 2);
      Scores(step, queries, shared.ring[at % kDecodeStages], s);
      __syncwarp();  // all lanes have read the keys
      if (lane == 0) ArriveForAll(&shared.empty[at % kDecodeStages], kDecodeWarps);
#pragma unroll
      for (int n = 0; n < 8; ++n) top = fmaxf(top, fmaxf(s[n][0], s[n][1]));
      top = QuadMax(top);
    }
    queries = LoadQueries<kDim>(p, next);
    if (lane % 4 == 0) shared.tops[warp][lane / 4] = top;
    ptx::NamedBarrier(1,
                      kDecodeComputeThreads);  // all maxima are there; all read the weights before
    Weights(p, shared, sees, s);
    ptx::NamedBarrier(1, kDecodeComputeThreads);  // all weights are there; all read the maxima
    const Values<kDim> values = SplitValues(step, shared);
    if (step.item.parts > 1) {
      LeavePartial(p, step, values);
    } else {
      merged.Add(values);
      if (step.IsLastSplit()) {
        Store(p, step, merged);
        merged.Clear();
      }
    }
    step = next;
  }
}

template <int kDim>
__global__ void __launch_bounds__(kDecodeThreads, kDim == 64 ? 2 : 1)
    sm90_bf16_attention_decode_kernel(const __grid_constant__ DecodeParams p) {
  extern __shared__ __align__(1024) uint8_t memory[];
  auto& shared = *reinterpret_cast<DecodeShared<kDim>*>(memory);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kDecodeStages; ++i) {
      ptx::BarrierInit(&shared.full[i], kDecodeCopyThreads);
      ptx::BarrierInit(&shared.empty[i], kDecodeWarps);
    }
    ptx::BarriersReady();
  }
  ptx::DependencyLaunch();
  const int units = p.work.counts->decode_items * p.kv_heads * p.blocks;
  // Those without work make room at once for the next kernel, which fetches weights meanwhile; the
  // first stays, since a kernel must wait.
  if (blockIdx.x > 0 && static_cast<int>(blockIdx.x) >= units) return;
  __syncthreads();  // the barriers are there
  if (threadIdx.x >= kDecodeComputeThreads) {
    if constexpr (kDim == 64) ptx::RegistersDown<32>();
    CopyPages(p, shared, units);
  } else {
    if constexpr (kDim == 64) ptx::RegistersUp<104>();
    Compute(p, shared, units);
  }
}

template <int kDim>
void LaunchDecode(const DecodeParams& decode, int64_t bound, cudaStream_t stream) {
  constexpr size_t kBytes = sizeof(DecodeShared<kDim>);
  constexpr int kCtas = kDim == 64 ? 2 : 1;  // of an SM
  static_assert(kCtas * (kBytes + 1024) <= 228 * 1024, "the CTAs of an SM share its memory");
  AllowSharedMemory("sm90_bf16_attention_decode", sm90_bf16_attention_decode_kernel<kDim>, kBytes);
  const auto ctas = static_cast<unsigned>(std::min<int64_t>(bound, SmCount() * kCtas));
  Launch(
      "sm90_bf16_attention_decode", sm90_bf16_attention_decode_kernel<kDim>,
      {.grid = dim3(ctas), .block = dim3(kDecodeThreads), .smem_bytes = kBytes, .dependent = true},
      stream, decode);
}

}  // namespace

void LaunchDecodeAttention(const AttentionParams& params, cudaStream_t stream) {
  const AttentionLimits& limits = params.limits;
  const int64_t group = limits.heads / limits.kv_heads;
  const DecodeParams decode{.qkv = params.qkv,
                            .keys = params.keys,
                            .values = params.values,
                            .sinks = params.sinks,
                            .out = params.out,
                            .pages = params.step.pages,
                            .work = LayOutWork(limits, params.workspace, nullptr),
                            .qkv_stride = params.qkv_stride,
                            .heads = static_cast<int>(limits.heads),
                            .kv_heads = static_cast<int>(limits.kv_heads),
                            .group = static_cast<int>(group),
                            .blocks = static_cast<int>((group + kDecodeHeads - 1) / kDecodeHeads),
                            .window = static_cast<int>(limits.window),
                            .scale = ScoreScale(limits.head_dim)};
  // Units that there can be, if each row is one item.
  const int64_t rows = std::min(params.step.rows, params.step.seq_count * kDecodeRows);
  const int64_t bound = (rows + decode.work.slots) * limits.kv_heads * decode.blocks;
  if (limits.head_dim == 64) {
    LaunchDecode<64>(decode, bound, stream);
  } else {
    LaunchDecode<128>(decode, bound, stream);
  }
}

}  // namespace rose
