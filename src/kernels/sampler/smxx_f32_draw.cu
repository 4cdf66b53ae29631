// Draws a token for each row of logits: the same tokens as engine/sampler.h.
// Work      three kernels: a row is cut into kParts parts, of which each finds its largest logit,
// and
//           then its sum of weights; one CTA a row then draws. top_k and top_p find the last place
//           that they keep by counting: a pass over the row for bins of equal width, then one for
//           each digit of the logits in the bin where the place lies, until it is alone.
// Bound     memory: a row is read once for the largest, once for the weights, and where top_k or
//           top_p are asked for some five times more, by one CTA. From L2 after the first time.
// Requires  compiled without contraction (-fmad=false), see base/draw.h.
#include "base/check.h"
#include "base/draw.h"
#include "device/launch.h"
#include "kernels/sampler/sampler.h"

namespace rose {
namespace {

constexpr int kParts = 64;         // of a row
constexpr int kPartThreads = 256;  // of a CTA that works on a part
constexpr int kPickThreads = 1024;
constexpr int kBins = 2048;
constexpr float kLeastScaled = -29.0f;  // below this ExpWeight is 0
constexpr float kLargestFloat = 3.402823466e38f;

__device__ float Excluded() {
  return __int_as_float(0xff800000);
}

__device__ float Sane(float logit) {
  if (!(logit > Excluded())) return Excluded();
  return logit > kLargestFloat ? kLargestFloat : logit;
}

// Larger = more likely: by logit, then by lower id. Both zeros are one number.
__device__ uint64_t Rank(float logit, int64_t id) {
  const uint32_t bits = logit == 0 ? 0 : __float_as_uint(logit);
  const uint32_t key = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return uint64_t{key} << 32 | (0xffffffffu - static_cast<uint32_t>(id));
}
__device__ int32_t IdOf(uint64_t rank) {
  return static_cast<int32_t>(0xffffffffu - static_cast<uint32_t>(rank));
}
__device__ float LogitOf(uint64_t rank) {
  const auto key = static_cast<uint32_t>(rank >> 32);
  return __uint_as_float((key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key);
}

// What the kernels leave for each other, for each draw.
struct Parts {
  uint64_t best[kParts];  // ranks
  uint64_t sum[kParts];   // of weights
};

struct Kernels {
  DrawParams p;
  Parts* parts;
};

// The logits of a draw, as they count for it.
struct Logits {
  __device__ Logits(const DrawParams& p, const DrawRow& row)
      : values(row.edited_row >= 0 ? p.edited + row.edited_row * p.vocab
                                   : p.logits + row.logits_row * p.vocab) {}
  __device__ float operator[](int64_t id) const { return Sane(values[id]); }
  const float* values;
};

// 0 for what min_p excludes.
__device__ uint64_t WeightOf(float logit, float largest, const DrawRow& row) {
  const float scaled = (logit - largest) * row.rule.inverse_temperature;
  return scaled >= row.rule.min_p_bound ? ExpWeight(scaled) : 0;
}

__device__ int64_t PartSize(int64_t vocab) {
  return (vocab + kParts - 1) / kParts;
}

__device__ bool IsFiltered(const DrawParams& p, const DrawRow& row) {
  return row.rule.top_p < 1 || (row.rule.top_k > 0 && row.rule.top_k < p.vocab);
}

__device__ uint64_t WarpMax(uint64_t x) {
  for (int offset = 16; offset > 0; offset /= 2) {
    const uint64_t other = __shfl_xor_sync(~0u, x, offset);
    x = other > x ? other : x;
  }
  return x;
}

__device__ uint64_t WarpSum(uint64_t x) {
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(~0u, x, offset);
  return x;
}

// In every thread; kThreads / 32 <= 32 warps.
template <int kThreads, typename Reduce>
__device__ uint64_t BlockReduce(uint64_t x, Reduce reduce) {
  __shared__ uint64_t partial[kThreads / 32];
  x = reduce(x);
  __syncthreads();  // the values of an earlier call have been read
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
  __syncthreads();  // all warps' values are in `partial`
  return reduce(threadIdx.x % 32 < kThreads / 32 ? partial[threadIdx.x % 32] : 0);
}

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
  const DrawParams& p = k.p;
  const DrawRow row = p.rows[blockIdx.y];
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

__global__ void __launch_bounds__(kPartThreads)
    smxx_f32_draw_best_kernel(const __grid_constant__ Kernels k) {
  const DrawRow row = k.p.rows[blockIdx.y];
  const Logits logits(k.p, row);
  const int64_t begin = blockIdx.x * PartSize(k.p.vocab);
  const int64_t end = min(k.p.vocab, begin + PartSize(k.p.vocab));
  uint64_t best = 0;
  for (int64_t id = begin + threadIdx.x; id < end; id += kPartThreads) {
    const uint64_t rank = Rank(logits[id], id);
    best = rank > best ? rank : best;
  }
  best = BlockReduce<kPartThreads>(best, WarpMax);
  if (threadIdx.x == 0) k.parts[blockIdx.y].best[blockIdx.x] = best;
}

// The best of all parts, in every thread of a warp.
__device__ uint64_t BestOf(const Parts& parts) {
  uint64_t best = 0;
  for (int i = threadIdx.x % 32; i < kParts; i += 32) best = max(best, parts.best[i]);
  return WarpMax(best);
}

__global__ void __launch_bounds__(kPartThreads)
    smxx_f32_draw_sum_kernel(const __grid_constant__ Kernels k) {
  const DrawRow row = k.p.rows[blockIdx.y];
  if (row.rule.inverse_temperature == 0 || IsFiltered(k.p, row)) return;
  const Logits logits(k.p, row);
  const float largest = LogitOf(BestOf(k.parts[blockIdx.y]));
  const int64_t begin = blockIdx.x * PartSize(k.p.vocab);
  const int64_t end = min(k.p.vocab, begin + PartSize(k.p.vocab));
  uint64_t sum = 0;
  for (int64_t id = begin + threadIdx.x; id < end; id += kPartThreads) {
    sum += WeightOf(logits[id], largest, row);
  }
  sum = BlockReduce<kPartThreads>(sum, WarpSum);
  if (threadIdx.x == 0) k.parts[blockIdx.y].sum[blockIdx.x] = sum;
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

// Finds the last rank that a filter keeps, by histograms over the whole row.
struct Selection {
  uint32_t count[kBins];
  uint64_t weight[kBins];
  // The bin where the last rank lies, and what lies before it.
  int bin;
  uint32_t count_before;
  uint64_t weight_before;
};

// Bins of equal width of the scaled logit, 0 the most likely. Monotone: of two logits the larger is
// in no later bin.
__device__ int BinOf(float logit, float largest, const DrawRow& row) {
  const float scaled = (logit - largest) * row.rule.inverse_temperature;
  const int bin = static_cast<int>(scaled * (static_cast<float>(kBins) / kLeastScaled));
  return bin < kBins - 1 ? bin : kBins - 1;
}

// Where the last kept one lies: the first bin (in their order) by whose end `wanted_count` have
// been seen, or where that is 0 a weight of `wanted_weight`.
__device__ void FindBin(Selection& s, int bins, uint32_t wanted_count, double wanted_weight) {
  for (int bin = 0; bin < bins; ++bin) {
    if (s.count[bin] == 0) continue;
    s.bin = bin;  // where rounding lets none reach it, the last one with anything in it
    const uint32_t count = s.count_before + s.count[bin];
    const uint64_t weight = s.weight_before + s.weight[bin];
    if (wanted_count > 0 ? count >= wanted_count : static_cast<double>(weight) >= wanted_weight)
      return;
    s.count_before = count;
    s.weight_before = weight;
  }
}

// What SelectLast looks into: ranks >= last with a weight, of the bin `width_bin` (-1 = of all),
// whose first digits are `prefix`: those above `shift` bits (64 = no digit).
struct Members {
  const Logits& logits;
  const DrawRow& row;
  float largest;
  uint64_t last;
  int width_bin = -1;
  uint64_t prefix = 0;
  int shift = 64;

  // The weight of a member, 0 for others.
  __device__ uint64_t Weight(float logit, uint64_t rank) const {
    if (rank < last || (shift < 64 && rank >> shift != prefix)) return 0;
    if (width_bin >= 0 && BinOf(logit, largest, row) != width_bin) return 0;
    return WeightOf(logit, largest, row);
  }
};

// The least rank of all members. All threads of the CTA.
__device__ uint64_t LeastOf(const Members& members, int64_t vocab) {
  uint64_t most = 0;  // of the complements
  for (int64_t id = threadIdx.x; id < vocab; id += kPickThreads) {
    const float logit = members.logits[id];
    const uint64_t rank = Rank(logit, id);
    if (members.Weight(logit, rank) != 0) most = max(most, ~rank);
  }
  return ~BlockReduce<kPickThreads>(most, WarpMax);
}

// The lowest rank kept of the members: the wanted_count-th, or, where wanted_count is 0, the first
// by which the weights reach wanted_weight. All threads of the CTA.
__device__ uint64_t SelectLast(Selection& s, Members members, int64_t vocab, uint32_t wanted_count,
                               double wanted_weight) {
  for (int digit = -1; digit < 8; ++digit) {  // -1: the bins of equal width
    const int bins = digit < 0 ? kBins : 256;
    for (int i = threadIdx.x; i < bins; i += kPickThreads) s.count[i] = 0, s.weight[i] = 0;
    if (digit < 0 && threadIdx.x == 0) s.count_before = 0, s.weight_before = 0;
    __syncthreads();  // the histogram is empty
    for (int64_t id = threadIdx.x; id < vocab; id += kPickThreads) {
      const float logit = members.logits[id];
      const uint64_t rank = Rank(logit, id);
      const uint64_t weight = members.Weight(logit, rank);
      if (weight == 0) continue;
      const int bin = digit < 0 ? BinOf(logit, members.largest, members.row)
                                : 255 - static_cast<int>(rank >> (members.shift - 8) & 255);
      atomicAdd(&s.count[bin], 1u);
      atomicAdd(reinterpret_cast<unsigned long long*>(&s.weight[bin]), weight);
    }
    __syncthreads();  // the histogram is full
    if (threadIdx.x == 0) FindBin(s, bins, wanted_count, wanted_weight);
    __syncthreads();  // the bin is found
    if (digit < 0) {
      members.width_bin = s.bin;
    } else {
      members.prefix = members.prefix << 8 | static_cast<uint64_t>(255 - s.bin);
      members.shift -= 8;
    }
    const uint32_t count = s.count[s.bin];
    const bool is_whole = wanted_count > 0 && s.count_before + count == wanted_count;
    __syncthreads();  // everyone has read the histogram
    if (count == 1 || is_whole) break;
  }
  return LeastOf(members, vocab);
}

// The last rank that top_k and top_p keep.
__device__ uint64_t LastKept(const DrawParams& p, const DrawRow& row, const Logits& logits,
                             float largest) {
  __shared__ Selection selection;
  uint64_t last = 0;
  uint32_t kept = 0;
  for (int64_t id = threadIdx.x; id < p.vocab; id += kPickThreads) {
    kept += WeightOf(logits[id], largest, row) != 0;
  }
  kept = static_cast<uint32_t>(BlockReduce<kPickThreads>(kept, WarpSum));
  if (row.rule.top_k > 0 && static_cast<uint32_t>(row.rule.top_k) < kept) {
    last = SelectLast(selection, {logits, row, largest, last}, p.vocab,
                      static_cast<uint32_t>(row.rule.top_k), 0);
  }
  if (row.rule.top_p < 1) {
    uint64_t total = 0;
    for (int64_t id = threadIdx.x; id < p.vocab; id += kPickThreads) {
      const float logit = logits[id];
      if (Rank(logit, id) >= last) total += WeightOf(logit, largest, row);
    }
    total = BlockReduce<kPickThreads>(total, WarpSum);
    last = SelectLast(selection, {logits, row, largest, last}, p.vocab, 0,
                      row.rule.top_p * static_cast<double>(total));
  }
  return last;
}

// The draw among ranks >= LastKept: a warp for each stretch of ids, then the one where it lies.
__device__ int32_t PickFromFew(const DrawParams& p, const DrawRow& row, const Logits& logits,
                               float largest) {
  constexpr int kWarps = kPickThreads / 32;
  __shared__ uint64_t sums[kWarps];
  const uint64_t last = LastKept(p, row, logits, largest);
  const int warp = threadIdx.x / 32;
  const int64_t stretch = (p.vocab + kWarps - 1) / kWarps;
  uint64_t sum = 0;
  for (int64_t i = threadIdx.x % 32; i < stretch && warp * stretch + i < p.vocab; i += 32) {
    const int64_t id = warp * stretch + i;
    const float logit = logits[id];
    if (Rank(logit, id) >= last) sum += WeightOf(logit, largest, row);
  }
  sum = WarpSum(sum);
  if (threadIdx.x % 32 == 0) sums[warp] = sum;
  __syncthreads();  // all warps' sums are there
  if (warp != 0) return 0;
  uint64_t total = 0;
  for (int i = 0; i < kWarps; ++i) total += sums[i];
  const uint64_t target = DrawTarget(row.rule.word, total);
  uint64_t before = 0;
  int at = 0;
  while (at < kWarps - 1 && before + sums[at] <= target) before += sums[at++];
  return Walk(logits, at * stretch, min(p.vocab, (at + 1) * stretch), largest, row, last, before,
              target);
}

// The draw among all: one warp.
__device__ int32_t PickFromAll(const DrawParams& p, const DrawRow& row, const Logits& logits,
                               float largest, const Parts& parts) {
  uint64_t total = 0;
  for (int i = threadIdx.x; i < kParts; i += 32) total += parts.sum[i];
  total = WarpSum(total);
  const uint64_t target = DrawTarget(row.rule.word, total);
  uint64_t before = 0;
  int at = 0;
  while (at < kParts - 1 && before + parts.sum[at] <= target) before += parts.sum[at++];
  const int64_t begin = at * PartSize(p.vocab);
  return Walk(logits, begin, min(p.vocab, begin + PartSize(p.vocab)), largest, row, /*last=*/0,
              before, target);
}

__global__ void __launch_bounds__(kPickThreads)
    smxx_f32_draw_pick_kernel(const __grid_constant__ Kernels k) {
  const DrawRow row = k.p.rows[blockIdx.x];
  const Parts& parts = k.parts[blockIdx.x];
  const uint64_t best = BestOf(parts);
  const float largest = LogitOf(best);
  const Logits logits(k.p, row);
  int32_t id = IdOf(best);
  if (largest == Excluded()) {
    id = -1;
  } else if (row.rule.inverse_temperature != 0 && IsFiltered(k.p, row)) {
    id = PickFromFew(k.p, row, logits, largest);
  } else if (row.rule.inverse_temperature != 0 && threadIdx.x < 32) {
    id = PickFromAll(k.p, row, logits, largest, parts);
  }
  if (threadIdx.x == 0) k.p.tokens[blockIdx.x] = id;
}

}  // namespace

int64_t DrawWorkspaceBytes(int64_t draws) {
  return draws * static_cast<int64_t>(sizeof(Parts));
}

void LaunchDraw(const DrawParams& params, cudaStream_t stream) {
  ROSE_CHECK(params.draws >= 0 && params.draws <= 65'535, "draws=", params.draws);
  ROSE_CHECK(params.vocab > 0 && params.vocab <= 0x7fffffff, "vocab=", params.vocab);
  if (params.draws == 0) return;
  const Kernels kernels{params, static_cast<Parts*>(params.workspace)};
  const auto draws = static_cast<unsigned>(params.draws);
  const LaunchShape each_part{.grid = dim3(kParts, draws), .block = dim3(kPartThreads)};
  if (params.edited != nullptr) {
    Launch("smxx_f32_draw_edit", smxx_f32_draw_edit_kernel, each_part, stream, kernels);
  }
  Launch("smxx_f32_draw_best", smxx_f32_draw_best_kernel, each_part, stream, kernels);
  Launch("smxx_f32_draw_sum", smxx_f32_draw_sum_kernel, each_part, stream, kernels);
  Launch("smxx_f32_draw_pick", smxx_f32_draw_pick_kernel,
         {.grid = dim3(draws), .block = dim3(kPickThreads)}, stream, kernels);
}

}  // namespace rose
