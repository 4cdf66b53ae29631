// Draws a token for each row of logits: the same tokens as engine/sampler.h.
// Work      a row is cut into kParts parts, of each of which a CTA finds the largest logit, and
// then
//           the sum of weights; one CTA a row then draws. For rows with top_k or top_p, parts first
//           find the last place that is kept (draw_filter.cuh). Where that cannot be listed, the
//           one CTA finds it alone (draw_select.cuh).
// Bound     memory: a row is read once for the largest, once for the weights, and for each of top_k
//           and top_p some two times more. From L2 after the first time. One row: latency of four
//           to six kernels.
// Requires  compiled without contraction (-fmad=false), see base/draw.h.
#include "base/check.h"
#include "base/draw.h"
#include "device/launch.h"
#include "kernels/common/ptx/bulk_copy.cuh"
#include "kernels/sampler/draw_common.cuh"
#include "kernels/sampler/draw_filter.cuh"
#include "kernels/sampler/draw_select.cuh"
#include "kernels/sampler/sampler.h"

namespace rose {
namespace {

__device__ bool IsMasked(const DrawParams& p, const DrawRow& row, int64_t id) {
  if (row.mask_row < 0) return false;
  if (id / 32 >= p.mask_words) return true;
  return (p.masks[row.mask_row * p.mask_words + id / 32] >> (id % 32) & 1) == 0;
}

__device__ float Edited(float logit, const LogitEdit& edit, const DrawRow& row) {
  logit = Sane(logit);
  if (edit.bias != 0) logit = Sane(logit + edit.bias);
  if (edit.occurrences >= 0) {
    logit = logit > 0 ? __fdiv_rn(logit, row.rule.repetition_penalty)
                      : logit * row.rule.repetition_penalty;
    const auto occurrences = static_cast<float>(edit.occurrences);
    logit = logit - row.rule.frequency_penalty * occurrences;
    if (occurrences > 0) logit = logit - row.rule.presence_penalty;
    logit = Sane(logit);
  }
  return edit.excluded ? Excluded() : logit;
}

// Copies the logits of a part of an edited row, and edits the copy.
__global__ void __launch_bounds__(kPartThreads)
    smxx_f32_draw_edit_kernel(const __grid_constant__ Kernels k) {
  ptx::DependencyLaunch();
  const DrawParams& p = k.p;
  const DrawRow row = p.rows[blockIdx.y];
  ptx::DependencyWait();
  if (row.edited_row < 0) return;
  const int64_t begin = blockIdx.x * PartSize(p.vocab);
  const int64_t end = min(p.vocab, begin + PartSize(p.vocab));
  const float* from = p.logits + row.logits_row * p.vocab;
  float* to = p.edited + row.edited_row * p.vocab;
  for (int64_t id = begin + threadIdx.x; id < end; id += kPartThreads) {
    to[id] = IsMasked(p, row, id) ? Excluded() : Sane(from[id]);
  }
  __syncthreads();  // the copies above come before the edits below
  for (int i = threadIdx.x; i < row.edits; i += kPartThreads) {
    const LogitEdit edit = p.edits[row.first_edit + i];
    if (edit.id < begin || edit.id >= end || IsMasked(p, row, edit.id)) continue;
    to[edit.id] = Edited(from[edit.id], edit, row);
  }
}

__device__ bool IsRandom(const DrawRow& row) {
  return row.rule.inverse_temperature != 0;
}

__global__ void __launch_bounds__(kPartThreads)
    smxx_f32_draw_best_kernel(const __grid_constant__ Kernels k) {
  ptx::DependencyLaunch();
  const DrawRow row = k.p.rows[blockIdx.y];
  ptx::DependencyWait();
  DrawWork& work = k.work[blockIdx.y];
  if (IsRandom(row) && IsFiltered(k.p, row)) {
    constexpr int kOwn = kBins / kParts;
    for (int i = threadIdx.x; i < kOwn; i += kPartThreads) {
      work.count[blockIdx.x * kOwn + i] = 0;
      work.weight[blockIdx.x * kOwn + i] = 0;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
      work.k.bin = work.p.bin = -1;
      work.k.listed = work.p.listed = 0;
    }
  }
  const Logits logits(k.p, row);
  const int64_t begin = blockIdx.x * PartSize(k.p.vocab);
  const int64_t end = min(k.p.vocab, begin + PartSize(k.p.vocab));
  uint64_t best = 0;
  for (int64_t id = begin + threadIdx.x; id < end; id += kPartThreads) {
    const uint64_t rank = Rank(logits[id], id);
    best = rank > best ? rank : best;
  }
  best = BlockReduce<kPartThreads>(best, WarpMax);
  if (threadIdx.x == 0) work.best[blockIdx.x] = best;
}

// The kernels of top_k and top_p.
enum class Filter { kCount, kTopK, kTopP };

template <Filter kFilter>
__global__ void __launch_bounds__(kPartThreads)
    smxx_f32_draw_filter_kernel(const __grid_constant__ Kernels k) {
  ptx::DependencyLaunch();
  const DrawRow row = k.p.rows[blockIdx.y];
  ptx::DependencyWait();
  DrawWork& work = k.work[blockIdx.y];
  if (!IsRandom(row) || !IsFiltered(k.p, row)) return;
  if constexpr (kFilter == Filter::kCount) {
    CountPart(k, work, row);
  } else if constexpr (kFilter == Filter::kTopK) {
    if (UsesTopK(k.p, row)) ListTopK(k, work, row);
  } else {
    if (row.rule.top_p < 1) ListTopP(k, work, row);
  }
}

__global__ void __launch_bounds__(kPartThreads)
    smxx_f32_draw_sum_kernel(const __grid_constant__ Kernels k) {
  ptx::DependencyLaunch();
  const DrawRow row = k.p.rows[blockIdx.y];
  ptx::DependencyWait();
  if (!IsRandom(row)) return;
  DrawWork& work = k.work[blockIdx.y];
  const uint64_t last = IsFiltered(k.p, row) ? LastListed(work, row) : 0;
  if (blockIdx.x == 0 && threadIdx.x == 0) work.last = last;
  if (last == kUnknown) return;
  const Logits logits(k.p, row);
  const float largest = LogitOf(BestOf(work));
  const int64_t begin = blockIdx.x * PartSize(k.p.vocab);
  const int64_t end = min(k.p.vocab, begin + PartSize(k.p.vocab));
  uint64_t sum = 0;
  for (int64_t id = begin + threadIdx.x; id < end; id += kPartThreads) {
    const float logit = logits[id];
    if (Rank(logit, id) >= last) sum += WeightOf(logit, largest, row);
  }
  sum = BlockReduce<kPartThreads>(sum, WarpSum);
  if (threadIdx.x == 0) work.sum[blockIdx.x] = sum;
}

// One warp: the lowest id in [begin, end) at which the sum of weights of ranks >= last, added to
// `before`, exceeds `target`; -1 if there is none.
__device__ int32_t Walk(const Logits& logits, int64_t begin, int64_t end, float largest,
                        const DrawRow& row, uint64_t last, uint64_t before, uint64_t target) {
  const int lane = threadIdx.x % 32;
  for (int64_t first = begin; first < end; first += 32) {
    const int64_t id = first + lane;
    uint64_t sum = 0;
    if (id < end) {
      const float logit = logits[id];
      if (Rank(logit, id) >= last) sum = WeightOf(logit, largest, row);
    }
    for (int offset = 1; offset < 32; offset *= 2) {
      const uint64_t other = __shfl_up_sync(~0u, sum, offset);
      if (lane >= offset) sum += other;
    }
    const uint32_t beyond = __ballot_sync(~0u, before + sum > target);
    if (beyond != 0) return static_cast<int32_t>(first + __ffs(static_cast<int>(beyond)) - 1);
    before += __shfl_sync(~0u, sum, 31);
  }
  return -1;
}

// Where a draw lies, and among which ranks it is.
struct Range {
  int64_t begin, end;  // ids
  uint64_t before;     // the sum of weights ahead of them
  uint64_t last, target;
};

// The draw: a warp for each stretch of the ids, then the one where it lies. All threads of the CTA;
// the first warp gets the token.
__device__ int32_t PickIn(const Logits& logits, float largest, const DrawRow& row,
                          const Range& range) {
  constexpr int kWarps = kPickThreads / 32;
  __shared__ uint64_t sums[kWarps];
  const int warp = threadIdx.x / 32;
  const int64_t stretch = (range.end - range.begin + kWarps - 1) / kWarps;
  const auto stretch_begin = [&](int w) { return min(range.end, range.begin + w * stretch); };
  uint64_t sum = 0;
  for (int64_t id = stretch_begin(warp) + threadIdx.x % 32; id < stretch_begin(warp + 1);
       id += 32) {
    const float logit = logits[id];
    if (Rank(logit, id) >= range.last) sum += WeightOf(logit, largest, row);
  }
  sum = WarpSum(sum);
  if (threadIdx.x % 32 == 0) sums[warp] = sum;
  __syncthreads();  // all warps' sums are there
  if (warp != 0) return 0;
  uint64_t before = range.before;
  int at = 0;
  while (at < kWarps - 1 && before + sums[at] <= range.target) before += sums[at++];
  return Walk(logits, stretch_begin(at), stretch_begin(at + 1), largest, row, range.last, before,
              range.target);
}

// The part where the draw lies.
__device__ Range PartOf(const DrawParams& p, const DrawRow& row, const DrawWork& work) {
  uint64_t total = 0;
  for (int i = 0; i < kParts; ++i) total += work.sum[i];
  Range range{.before = 0, .last = work.last, .target = DrawTarget(row.rule.word, total)};
  int at = 0;
  while (at < kParts - 1 && range.before + work.sum[at] <= range.target) {
    range.before += work.sum[at++];
  }
  range.begin = at * PartSize(p.vocab);
  range.end = min(p.vocab, range.begin + PartSize(p.vocab));
  return range;
}

// All of the row, of which this CTA finds out what is kept.
__device__ Range WholeRow(const DrawParams& p, const DrawRow& row, const Logits& logits,
                          float largest) {
  const uint64_t last = LastKept(p, row, logits, largest);
  uint64_t total = 0;
  for (int64_t id = threadIdx.x; id < p.vocab; id += kPickThreads) {
    const float logit = logits[id];
    if (Rank(logit, id) >= last) total += WeightOf(logit, largest, row);
  }
  total = BlockReduce<kPickThreads>(total, WarpSum);
  return {0, p.vocab, 0, last, DrawTarget(row.rule.word, total)};
}

__global__ void __launch_bounds__(kPickThreads)
    smxx_f32_draw_pick_kernel(const __grid_constant__ Kernels k) {
  ptx::DependencyLaunch();
  const DrawRow row = k.p.rows[blockIdx.x];
  ptx::DependencyWait();
  const DrawWork& work = k.work[blockIdx.x];
  const uint64_t best = BestOf(work);
  const float largest = LogitOf(best);
  const Logits logits(k.p, row);
  int32_t id = IdOf(best);
  if (largest == Excluded()) {
    id = -1;
  } else if (IsRandom(row)) {
    const Range range =
        work.last == kUnknown ? WholeRow(k.p, row, logits, largest) : PartOf(k.p, row, work);
    id = PickIn(logits, largest, row, range);
  }
  if (threadIdx.x == 0) k.p.tokens[blockIdx.x] = id;
}

}  // namespace

int64_t DrawWorkspaceBytes(int64_t draws) {
  return draws * static_cast<int64_t>(sizeof(DrawWork));
}

void LaunchDraw(const DrawParams& params, cudaStream_t stream) {
  ROSE_CHECK(params.draws >= 0 && params.draws <= 65'535, "draws=", params.draws);
  ROSE_CHECK(params.vocab > 0 && params.vocab <= 0x7fffffff, "vocab=", params.vocab);
  if (params.draws == 0) return;
  const Kernels kernels{params, static_cast<DrawWork*>(params.workspace)};
  const auto draws = static_cast<unsigned>(params.draws);
  const auto launch = [&](std::string_view name, auto kernel, dim3 grid, int threads) {
    Launch(name, kernel,
           {.grid = grid, .block = dim3(static_cast<unsigned>(threads)), .dependent = true}, stream,
           kernels);
  };
  const dim3 parts(kParts, draws);
  if (params.edited != nullptr) {
    launch("smxx_f32_draw_edit", smxx_f32_draw_edit_kernel, parts, kPartThreads);
  }
  launch("smxx_f32_draw_best", smxx_f32_draw_best_kernel, parts, kPartThreads);
  const auto filter = [&](auto kernel) {
    launch("smxx_f32_draw_filter", kernel, parts, kPartThreads);
  };
  if (params.any_top_k || params.any_top_p) filter(smxx_f32_draw_filter_kernel<Filter::kCount>);
  if (params.any_top_k) filter(smxx_f32_draw_filter_kernel<Filter::kTopK>);
  if (params.any_top_p) filter(smxx_f32_draw_filter_kernel<Filter::kTopP>);
  if (params.any_random) launch("smxx_f32_draw_sum", smxx_f32_draw_sum_kernel, parts, kPartThreads);
  launch("smxx_f32_draw_pick", smxx_f32_draw_pick_kernel, dim3(draws), kPickThreads);
}

}  // namespace rose
