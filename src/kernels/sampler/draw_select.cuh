// One CTA finds the last rank that top_k and top_p keep, by passes over the whole row: for rows of
// so many (nearly) equal logits that a list cannot hold them (draw_filter.cuh).
#pragma once

#include "kernels/sampler/draw_common.cuh"

namespace rose {

// Finds the last rank that a filter keeps, by histograms over the whole row.
struct Selection {
  uint32_t count[kBins];
  uint64_t weight[kBins];
  // The bin where the last rank lies, and what lies before it.
  int bin;
  uint32_t count_before;
  uint64_t weight_before;
};

// Where the last kept one lies: the first bin (in their order) by whose end `wanted_count` have
// been seen, or where that is 0 a weight of `wanted_weight`.
__device__ inline void FindSelected(Selection& s, int bins, uint32_t wanted_count,
                                    double wanted_weight) {
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
__device__ inline uint64_t LeastOf(const Members& members, int64_t vocab) {
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
__device__ inline uint64_t SelectLast(Selection& s, Members members, int64_t vocab,
                                      uint32_t wanted_count, double wanted_weight) {
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
    if (threadIdx.x == 0) FindSelected(s, bins, wanted_count, wanted_weight);
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
__device__ inline uint64_t LastKept(const DrawParams& p, const DrawRow& row, const Logits& logits,
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

}  // namespace rose
