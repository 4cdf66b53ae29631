// top_k and top_p by all CTAs of a row: its tokens are counted and weighed in bins of their logits;
// the bin where the last kept token lies is found, its members are listed, and the list is sorted.
// First for top_k, then, among what that keeps, for top_p.
#pragma once

#include "kernels/common/ptx/bulk_copy.cuh"
#include "kernels/sampler/draw_common.cuh"

namespace rose {

__device__ inline bool UsesTopK(const DrawParams& p, const DrawRow& row) {
  return row.rule.top_k > 0 && row.rule.top_k < p.vocab;
}

struct Scanned {
  uint64_t before, total;
};

// What comes before this thread's `x` in thread order, and the sum of all.
__device__ inline Scanned ScanParts(uint64_t x) {
  __shared__ uint64_t partial[kPartThreads / 32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint64_t sum = x;
  for (int offset = 1; offset < 32; offset *= 2) {
    const uint64_t other = __shfl_up_sync(~0u, sum, offset);
    if (lane >= offset) sum += other;
  }
  __syncthreads();  // the values of an earlier call have been read
  if (lane == 31) partial[warp] = sum;
  __syncthreads();  // all warps' sums are there
  Scanned scanned{sum - x, 0};
  for (int w = 0; w < kPartThreads / 32; ++w) {
    if (w < warp) scanned.before += partial[w];
    scanned.total += partial[w];
  }
  return scanned;
}

// Which token is looked for: the `count`-th, or, where that is 0, the first by which the weights
// reach `weight`.
struct Wanted {
  uint32_t count = 0;
  double weight = 0;

  __device__ bool IsReached(uint32_t seen, uint64_t seen_weight) const {
    return count > 0 ? seen >= count : static_cast<double>(seen_weight) >= weight;
  }
};

// The last bin that counts, and what of it does.
struct Cut {
  int bin;
  uint32_t count;
  uint64_t weight;
};

struct BinPlace {
  int bin = -1;
  uint32_t count_before = 0;
  uint64_t weight_before = 0;
};

// The bin where the wanted token lies; the last that is not empty, where rounding lets none reach
// the weight. All threads of the CTA.
__device__ inline BinPlace FindBin(const DrawWork& work, const Cut& cut, const Wanted& wanted) {
  constexpr int kEach = kBins / kPartThreads;
  __shared__ BinPlace found;
  __shared__ int last;  // not empty
  uint32_t counts[kEach];
  uint64_t weights[kEach];
  uint64_t count = 0, weight = 0;
  int own_last = -1;
  for (int i = 0; i < kEach; ++i) {
    const int bin = static_cast<int>(threadIdx.x) * kEach + i;
    counts[i] = bin < cut.bin ? work.count[bin] : bin == cut.bin ? cut.count : 0;
    weights[i] = bin < cut.bin ? work.weight[bin] : bin == cut.bin ? cut.weight : 0;
    count += counts[i];
    weight += weights[i];
    if (counts[i] > 0) own_last = bin;
  }
  if (threadIdx.x == 0) found = {}, last = -1;
  auto seen = static_cast<uint32_t>(ScanParts(count).before);
  uint64_t seen_weight = ScanParts(weight).before;
  atomicMax(&last, own_last);
  __syncthreads();  // the last bin is known, and `found` is empty
  for (int i = 0; i < kEach; ++i) {
    const int bin = static_cast<int>(threadIdx.x) * kEach + i;
    const uint32_t next = seen + counts[i];
    const uint64_t next_weight = seen_weight + weights[i];
    const bool is_first = seen == 0 || !wanted.IsReached(seen, seen_weight);
    const bool is_reached = wanted.IsReached(next, next_weight) || bin == last;
    if (counts[i] > 0 && is_first && is_reached) found = {bin, seen, seen_weight};
    seen = next;
    seen_weight = next_weight;
  }
  __syncthreads();  // the bin is found
  return found;
}

// A listed token, and what of the list comes up to it.
struct ListPlace {
  uint64_t rank = 0;
  uint32_t count = 0;
  uint64_t weight = 0;
};

// The wanted token of a list of at most kListed; its last one, where none reaches the weight. All
// threads of the CTA.
__device__ inline ListPlace FindInList(const DrawWork::Place& place, const Wanted& wanted,
                                       float largest, const DrawRow& row) {
  __shared__ uint64_t ranks[kListed];
  __shared__ ListPlace found;
  const int listed = static_cast<int>(place.listed);
  int size = kPartThreads;
  while (size < listed) size *= 2;
  for (int i = threadIdx.x; i < size; i += kPartThreads) ranks[i] = i < listed ? place.ranks[i] : 0;
  // A bitonic sort, descending.
  for (int run = 2; run <= size; run *= 2) {
    for (int step = run / 2; step > 0; step /= 2) {
      __syncthreads();  // the pairs of the step before are in order
      for (int pair = threadIdx.x; pair < size / 2; pair += kPartThreads) {
        const int low = pair / step * 2 * step + pair % step, high = low + step;
        const uint64_t a = ranks[low], b = ranks[high];
        if ((a < b) == ((low & run) == 0)) ranks[low] = b, ranks[high] = a;
      }
    }
  }
  __syncthreads();  // all ranks are in order
  const int each = size / kPartThreads, begin = static_cast<int>(threadIdx.x) * each;
  const auto weight_at = [&](int i) {
    return i < listed ? WeightOf(LogitOf(ranks[i]), largest, row) : 0;
  };
  uint64_t weight = 0;
  for (int i = begin; i < begin + each; ++i) weight += weight_at(i);
  weight = ScanParts(weight).before;
  for (int i = begin; i < min(begin + each, listed); ++i) {
    const uint64_t next = weight + weight_at(i);
    const uint32_t seen = place.count_before + i;
    const bool is_first = i == 0 || !wanted.IsReached(seen, place.weight_before + weight);
    const bool is_reached = wanted.IsReached(seen + 1, place.weight_before + next);
    if (is_first && (is_reached || i == listed - 1)) {
      found = {ranks[i], static_cast<uint32_t>(i) + 1, next};
    }
    weight = next;
  }
  __syncthreads();  // the token is found
  return found;
}

// Counts a part's tokens into the row's bins.
__device__ inline void CountPart(const Kernels& k, DrawWork& work, const DrawRow& row) {
  constexpr int kRound = 15 * kPartThreads;  // halves of weights must not overflow
  constexpr int kLowBits = 20;
  __shared__ uint32_t count[kBins], low[kBins], high[kBins];
  const Logits logits(k.p, row);
  const float largest = LogitOf(BestOf(work));
  const int64_t begin = blockIdx.x * PartSize(k.p.vocab);
  const int64_t end = min(k.p.vocab, begin + PartSize(k.p.vocab));
  for (int64_t from = begin; from < end; from += kRound) {
    for (int i = threadIdx.x; i < kBins; i += kPartThreads) count[i] = low[i] = high[i] = 0;
    __syncthreads();  // the bins are empty
    for (int64_t id = from + threadIdx.x; id < min(end, from + kRound); id += kPartThreads) {
      const float logit = logits[id];
      const uint64_t weight = WeightOf(logit, largest, row);
      if (weight == 0) continue;
      const int bin = BinOf(logit, largest, row);
      atomicAdd(&count[bin], 1u);
      atomicAdd(&low[bin], static_cast<uint32_t>(weight & ((1u << kLowBits) - 1)));
      atomicAdd(&high[bin], static_cast<uint32_t>(weight >> kLowBits));
    }
    __syncthreads();  // the bins are full
    for (int i = threadIdx.x; i < kBins; i += kPartThreads) {
      if (count[i] == 0) continue;
      atomicAdd(&work.count[i], count[i]);
      atomicAdd(reinterpret_cast<unsigned long long*>(&work.weight[i]),
                (static_cast<unsigned long long>(high[i]) << kLowBits) + low[i]);
    }
    __syncthreads();  // the bins have been read
  }
}

// Lists a part's tokens of a bin with ranks >= last.
__device__ inline void ListPart(const Kernels& k, const DrawWork& work, const DrawRow& row, int bin,
                                uint64_t last, DrawWork::Place& to) {
  const Logits logits(k.p, row);
  const float largest = LogitOf(BestOf(work));
  const int64_t begin = blockIdx.x * PartSize(k.p.vocab);
  const int64_t end = min(k.p.vocab, begin + PartSize(k.p.vocab));
  for (int64_t id = begin + threadIdx.x; id < end; id += kPartThreads) {
    const float logit = logits[id];
    if (BinOf(logit, largest, row) != bin || WeightOf(logit, largest, row) == 0) continue;
    const uint64_t rank = Rank(logit, id);
    if (rank < last) continue;
    const uint32_t at = atomicAdd(&to.listed, 1u);
    if (at < kListed) to.ranks[at] = rank;
  }
}

__device__ inline void KeepPlace(DrawWork::Place& to, const BinPlace& found, double wanted) {
  if (blockIdx.x > 0 || threadIdx.x > 0) return;
  to.bin = found.bin;
  to.count_before = found.count_before;
  to.weight_before = found.weight_before;
  to.wanted = wanted;
}

// Lists the bin where the last token lies that top_k keeps, unless that is all.
__device__ inline void ListTopK(const Kernels& k, DrawWork& work, const DrawRow& row) {
  const Cut all{kBins - 1, work.count[kBins - 1], work.weight[kBins - 1]};
  uint64_t count = 0;
  for (int i = threadIdx.x; i < kBins; i += kPartThreads) count += work.count[i];
  if (ScanParts(count).total <= static_cast<uint64_t>(row.rule.top_k)) return;
  const BinPlace found = FindBin(work, all, {.count = static_cast<uint32_t>(row.rule.top_k)});
  KeepPlace(work.k, found, 0);
  ListPart(k, work, row, found.bin, /*last=*/0, work.k);
}

// The same for top_p, among what top_k keeps.
__device__ inline void ListTopP(const Kernels& k, DrawWork& work, const DrawRow& row) {
  if (work.k.bin >= 0 && work.k.listed > kListed) return;
  Cut cut{kBins - 1, work.count[kBins - 1], work.weight[kBins - 1]};
  uint64_t last = 0, weight = 0;
  if (work.k.bin >= 0) {
    const ListPlace kept = FindInList(work.k, {.count = static_cast<uint32_t>(row.rule.top_k)},
                                      LogitOf(BestOf(work)), row);
    last = kept.rank;
    cut = {work.k.bin, kept.count, kept.weight};
  }
  for (int i = threadIdx.x; i < cut.bin; i += kPartThreads) weight += work.weight[i];
  const uint64_t total = ScanParts(weight).total + cut.weight;
  const double wanted = row.rule.top_p * static_cast<double>(total);
  const BinPlace found = FindBin(work, cut, {.weight = wanted});
  KeepPlace(work.p, found, wanted);
  ListPart(k, work, row, found.bin, last, work.p);
}

// The least rank that is kept, or kUnknown.
__device__ inline uint64_t LastListed(const DrawWork& work, const DrawRow& row) {
  const bool has_k = work.k.bin >= 0, has_p = work.p.bin >= 0;
  if ((has_k && work.k.listed > kListed) || (has_p && work.p.listed > kListed)) return kUnknown;
  const float largest = LogitOf(BestOf(work));
  if (has_p) return FindInList(work.p, {.weight = work.p.wanted}, largest, row).rank;
  if (!has_k) return 0;
  return FindInList(work.k, {.count = static_cast<uint32_t>(row.rule.top_k)}, largest, row).rank;
}

}  // namespace rose
