// Attention of decode rows, split over their keys. The order of sums is canonical.cuh's.
//
// Computes  out for the rows of the plan's items: a CTA takes 8 query heads of one KV head of a row
//           and one split of 512 keys. Where a row has several items, each leaves its sums in the
//           workspace, for smxx_attention_merge.cu.
// Work      persistent CTAs take units (item, KV head, 8 heads) in turn. A warpgroup copies pages
//           of keys, then of values, into a ring, as far ahead as there is room. Eight warps
//           compute: first a warp has a page: its scores, and from all pages' maxima the offsets.
//           Then a warp has 8 or 16 dims of the values, and walks over the pages in order. The
//           heads are rows 0 to 7 of the products' 16; the rest are zeros and cost nothing that is
//           scarce.
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
#include "kernels/attention/decode_values.cuh"
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
__device__ Queries<kDim> LoadQueries(const AttendParams& p, const DecodeStep& step) {
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
__device__ void Weights(const AttendParams& p, DecodeShared<kDim>& shared, bool sees,
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

template <int kDim>
__device__ void Compute(const AttendParams& p, DecodeShared<kDim>& shared, int units) {
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
      ArriveForAll(&shared.empty[at % kDecodeStages], kDecodeWarps);
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
    sm90_bf16_attention_decode_kernel(const __grid_constant__ AttendParams p) {
  extern __shared__ __align__(1024) uint8_t memory[];
  auto& shared = *reinterpret_cast<DecodeShared<kDim>*>(memory);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kDecodeStages; ++i) {
      ptx::BarrierInit(&shared.full[i], kDecodeCopyThreads);
      ptx::BarrierInit(&shared.empty[i], kDecodeComputeThreads);
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
void LaunchDecode(const AttendParams& decode, int64_t bound, bool is_planned, cudaStream_t stream) {
  constexpr size_t kBytes = sizeof(DecodeShared<kDim>);
  constexpr int kCtas = kDim == 64 ? 2 : 1;  // of an SM
  static_assert(kCtas * (kBytes + 1024) <= 228 * 1024, "the CTAs of an SM share its memory");
  AllowSharedMemory("sm90_bf16_attention_decode", sm90_bf16_attention_decode_kernel<kDim>, kBytes);
  const auto ctas = static_cast<unsigned>(std::min<int64_t>(bound, SmCount() * kCtas));
  // The kernel reads the plan before it waits. Right behind the plan it begins when that has ended.
  Launch("sm90_bf16_attention_decode", sm90_bf16_attention_decode_kernel<kDim>,
         {.grid = dim3(ctas),
          .block = dim3(kDecodeThreads),
          .smem_bytes = kBytes,
          .dependent = is_planned},
         stream, decode);
}

}  // namespace

void LaunchDecodeAttention(const AttentionParams& params, cudaStream_t stream) {
  const AttendParams decode = MakeAttendParams(params);
  // Units that there can be, if each row is one item.
  const int64_t rows = std::min(params.step.rows, params.step.seq_count * kDecodeRows);
  const int64_t bound = (rows + decode.work.slots) * decode.kv_heads * decode.blocks;
  if (decode.dim == 64) {
    LaunchDecode<64>(decode, bound, params.is_planned, stream);
  } else {
    LaunchDecode<128>(decode, bound, params.is_planned, stream);
  }
}

}  // namespace rose
