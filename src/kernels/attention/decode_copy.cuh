// The decode kernel's units of work, and the warpgroup that copies their pages to the ring.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/attention/page_tile.cuh"
#include "kernels/attention/work.h"
#include "kernels/common/ptx/bulk_copy.cuh"

namespace rose {

constexpr int kDecodeWarps = 8;  // that compute
constexpr int kDecodeComputeThreads = kDecodeWarps * 32;
constexpr int kDecodeCopyThreads = 128;
constexpr int kDecodeThreads = kDecodeComputeThreads + kDecodeCopyThreads;
constexpr int kSplit = kSplitPages * kPage;
constexpr int kDecodeStages = 12;  // pages of the ring
static_assert(kDecodeWarps == kSplitPages, "a warp has a page");

template <int kDim>
struct DecodeShared {
  uint16_t ring[kDecodeStages][kPage * kDim];
  // Weights of the split's keys; 16 bytes more a row, so that rows begin in different banks.
  uint16_t weights[kDecodeHeads][kSplit + 8];
  float tops[kSplitPages][kDecodeHeads];     // largest score of a page
  float factors[kSplitPages][kDecodeHeads];  // what a page's offset does to the sums before it
  float sums[kSplitPages][kDecodeHeads][4];  // of weights, by lane of a quad
  float offsets[kDecodeHeads];               // after the last page
  uint64_t full[kDecodeStages];              // the threads that copied
  // The threads that compute: each arrives for its own reads. One lane's arrival behind a
  // __syncwarp would do, and takes as long; but of that no instruction is left, and racecheck
  // reports a race.
  uint64_t empty[kDecodeStages];
};

// One split of one unit.
struct DecodeStep {
  DecodeItem item;
  int unit;  // -1: none
  int kv_head;
  int head;   // the first of the 8
  int heads;  // how many of the 8 there are
  int split;
  int first;          // position of the first key that the row sees
  int begin, end;     // pages of the split that it sees
  unsigned ring = 0;  // pages that went through the ring before: keys are next, then values

  __device__ int position(int j) const { return (split * kSplitPages + j) * kPage; }
  __device__ bool Sees(int j) const { return j >= begin && j < end; }
  __device__ unsigned KeysAt(int j) const { return ring + (j - begin); }
  __device__ unsigned ValuesAt(int j) const { return ring + (end - begin) + (j - begin); }
  __device__ bool IsLastSplit() const { return split + 1 == item.split + item.splits; }
  __device__ void SetPages() {
    begin = max(0, first / kPage - split * kSplitPages);
    end = min(kSplitPages, item.position / kPage + 1 - split * kSplitPages);
  }
};

// The first step of unit `unit`.
__device__ inline DecodeStep FirstStep(const AttendParams& p, int unit, int units) {
  DecodeStep step{};
  step.unit = unit < units ? unit : -1;
  if (step.unit < 0) return step;
  const int block = unit % p.blocks, rest = unit / p.blocks;
  step.kv_head = rest % p.kv_heads;
  step.item = p.work.items[rest / p.kv_heads];
  step.head = step.kv_head * p.group + block * kDecodeHeads;
  step.heads = min(kDecodeHeads, p.group - block * kDecodeHeads);
  step.split = step.item.split;
  step.first = p.window > 0 ? max(0, step.item.position - p.window + 1) : 0;
  step.SetPages();
  return step;
}

__device__ inline DecodeStep NextStep(const AttendParams& p, const DecodeStep& now, int units) {
  DecodeStep next = now;
  if (now.IsLastSplit()) {
    next = FirstStep(p, now.unit + static_cast<int>(gridDim.x), units);
  } else {
    ++next.split;
    next.SetPages();
  }
  next.ring = now.ring + 2 * (now.end - now.begin);
  return next;
}

// Lane j < 8: page j of the split.
__device__ inline int32_t LanePage(const AttendParams& p, const DecodeStep& step) {
  const int j = threadIdx.x % 32;
  if (step.unit < 0 || !step.Sees(j)) return 0;
  return p.pages[step.item.pages_at + step.split * kSplitPages + j];
}

// Copies page j of `from` (keys or values) to its place in the ring, as far as the row sees it;
// zeros elsewhere.
template <int kDim>
__device__ void CopyPage(const AttendParams& p, DecodeShared<kDim>& shared, const DecodeStep& step,
                         const Bf16* from, int32_t page, int j, unsigned at) {
  constexpr int kChunks = kDim / 8;
  const int stage = at % kDecodeStages, thread = threadIdx.x % kDecodeCopyThreads;
  const Bf16* base = from + (int64_t{page} * p.kv_heads + step.kv_head) * (kPage * kDim);
  const uint32_t to = ptx::SharedAddress(shared.ring[stage]);
  ptx::BarrierWait(&shared.empty[stage], at / kDecodeStages % 2 ^ 1);
#pragma unroll
  for (int i = thread; i < kPage * kChunks; i += kDecodeCopyThreads) {
    const int row = i / kChunks, position = step.position(j) + row;
    CopyAsync(to + TileByte<kDim>(row, i % kChunks), base + i * 8,
              position >= step.first && position <= step.item.position);
  }
  ArriveWhenCopied(&shared.full[stage]);
}

// Copies all pages of all units of this CTA. Pages that earlier steps filled were written before
// the kernel ahead began; so was the plan. The rest waits for it.
template <int kDim>
__device__ void CopyPages(const AttendParams& p, DecodeShared<kDim>& shared, int units) {
  DecodeStep step = FirstStep(p, blockIdx.x, units);
  int32_t pages = LanePage(p, step);
  bool waited = false;
  while (step.unit >= 0) {
    const DecodeStep next = NextStep(p, step, units);
    const int32_t next_pages = LanePage(p, next);
    const int written = step.item.position - kDecodeRows + 1;  // all before, at least
    for (int i = 0; i < 2; ++i) {
      for (int j = step.begin; j < step.end; ++j) {
        if (!waited && step.position(j) + kPage > written) {
          ptx::DependencyWait();
          waited = true;
        }
        CopyPage(p, shared, step, i == 0 ? p.keys : p.values, __shfl_sync(~0u, pages, j), j,
                 i == 0 ? step.KeysAt(j) : step.ValuesAt(j));
      }
    }
    step = next;
    pages = next_pages;
  }
}

}  // namespace rose
