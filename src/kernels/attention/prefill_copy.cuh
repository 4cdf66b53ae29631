// The prefill kernel's units of work, and the warpgroup that copies their pages to the ring.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/attention/page_tile.cuh"
#include "kernels/attention/work.h"
#include "kernels/common/ptx/bulk_copy.cuh"
#include "kernels/common/ptx/warpgroup.cuh"
#include "kernels/common/ring_place.cuh"

namespace rose {

constexpr int kPrefillCopyThreads = 128;

// Sizes by head dimension. Registers decide how many warpgroups compute, and where the merged
// values of earlier splits wait: in shared memory, by thread.
template <int kDim>
struct PrefillSizes {
  static constexpr int kGroups = kDim == 64 ? 4 : 2;  // warpgroups that compute
  static constexpr int kComputeThreads = kGroups * 128;
  static constexpr int kThreads = kComputeThreads + kPrefillCopyThreads;
  static constexpr int kComputeRegisters = kDim == 64 ? 112 : 240;
  static constexpr int kCopyRegisters = kDim == 64 ? 32 : 24;
  static constexpr int kStages = kDim == 64 ? 6 : 4;  // pages of the ring
  static constexpr int kLag = kDim == 64 ? 3 : 2;     // pages under way before one is waited for
  static constexpr int kQueryBuffers = kDim == 64 ? 2 : 1;
  static constexpr int kPanels = kDim / 64;
};

// 64 rows of 64 dims, 128 bytes each, swizzled: panel d has dims [64 d, 64 d + 64).
using Panel = uint16_t[64 * 64];

template <int kDim>
struct PrefillShared {
  using S = PrefillSizes<kDim>;
  Panel queries[S::kQueryBuffers][S::kGroups][S::kPanels];
  Panel keys[S::kStages][S::kPanels];
  Panel values[S::kStages][S::kPanels];
  float4 merged[S::kPanels * 8][S::kComputeThreads];
  uint64_t full[S::kStages];   // the warps that copied
  uint64_t empty[S::kStages];  // the warps that computed
  uint64_t queries_empty[S::kQueryBuffers];
};

// What a CTA computes at a time, and which pages that needs.
struct PrefillUnit {
  RowTile tile;
  int kv_head;
  int first, last;  // positions that some row sees
  int page, end;    // pages of those
};

// The unit of a round: the order of CTAs turns round by round, so that their work is even.
__device__ inline bool TakeUnit(const AttendParams& p, int round, int units, PrefillUnit& unit) {
  const int ctas = gridDim.x, cta = blockIdx.x;
  const int at = round * ctas + (round % 2 == 0 ? cta : ctas - 1 - cta);
  if (at >= units) return false;
  unit.tile = p.work.tiles[at / p.kv_heads];
  unit.kv_head = at % p.kv_heads;
  unit.first = p.window > 0 ? max(0, unit.tile.position - p.window + 1) : 0;
  unit.last = unit.tile.position + unit.tile.rows - 1;
  unit.page = unit.first / kPage;
  unit.end = unit.last / kPage + 1;
  return true;
}

// The state of a warp that copies.
template <int kDim>
struct Copier {
  using S = PrefillSizes<kDim>;
  const AttendParams& p;
  PrefillShared<kDim>& shared;
  RingPlace<S::kStages> to{.parity = 1};  // an empty ring may be written
  RingPlace<S::kStages> delivered{};
  RingPlace<S::kQueryBuffers> queries{.parity = 1};
  int under_way = 0;

  // Tells those who compute that the oldest page under way is there; kYounger are not waited for.
  template <int kYounger>
  __device__ void Deliver() {
    WaitForCopies<kYounger>();
    ptx::FenceAsync();  // wgmma reads what cp.async wrote
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::BarrierArrive(&shared.full[delivered.stage]);
    delivered.Advance();
    --under_way;
  }
  // Waits for room. Those who make it may wait for what is under way.
  __device__ void WaitForRoom(uint64_t* empty, uint32_t parity) {
    if (BarrierIsDone(empty, parity)) return;
    while (under_way > 0) Deliver<0>();
    ptx::BarrierWait(empty, parity);
  }
  __device__ void CopyQueries(const PrefillUnit& unit);
  __device__ void CopyPage(const PrefillUnit& unit, int64_t page, int position);
};

// They belong to the group of the first page.
template <int kDim>
__device__ void Copier<kDim>::CopyQueries(const PrefillUnit& unit) {
  constexpr int kChunks = kDim / 8;
  WaitForRoom(&shared.queries_empty[queries.stage], queries.parity);
  const uint32_t to = ptx::SharedAddress(shared.queries[queries.stage]);
#pragma unroll 4
  for (int i = threadIdx.x % kPrefillCopyThreads; i < S::kGroups * 64 * kChunks;
       i += kPrefillCopyThreads) {
    const int query = i / kChunks, chunk = i % kChunks;
    const int token = query / p.group, head = unit.kv_head * p.group + query % p.group;
    const bool is_there = token < unit.tile.rows;
    const int64_t row = unit.tile.row + (is_there ? token : 0);
    CopyAsync(to + (query / 64 * S::kPanels + chunk / 8) * sizeof(Panel) +
                  TileByte<64>(query % 64, chunk % 8),
              p.qkv + row * p.qkv_stride + head * kDim + chunk * 8, is_there);
  }
  queries.Advance();
}

template <int kDim>
__device__ void Copier<kDim>::CopyPage(const PrefillUnit& unit, int64_t page, int position) {
  constexpr int kChunks = kDim / 8;
  WaitForRoom(&shared.empty[to.stage], to.parity);
  const int64_t base = (page * p.kv_heads + unit.kv_head) * (kPage * kDim);
  const uint32_t keys = ptx::SharedAddress(shared.keys[to.stage]);
  const uint32_t values = ptx::SharedAddress(shared.values[to.stage]);
#pragma unroll 8
  for (int i = threadIdx.x % kPrefillCopyThreads; i < kPage * kChunks; i += kPrefillCopyThreads) {
    const int row = i / kChunks, chunk = i % kChunks, at = position + row;
    const uint32_t offset = chunk / 8 * sizeof(Panel) + TileByte<64>(row, chunk % 8);
    const bool is_there = at >= unit.first && at <= unit.last;
    CopyAsync(keys + offset, p.keys + base + i * 8, is_there);
    CopyAsync(values + offset, p.values + base + i * 8, is_there);
  }
  CommitCopies();
  to.Advance();
  if (++under_way > S::kLag) Deliver<S::kLag>();
}

template <int kDim>
__device__ void CopyPages(const AttendParams& p, PrefillShared<kDim>& shared, int units) {
  Copier<kDim> copier{p, shared};
  PrefillUnit unit;
  for (int round = 0; TakeUnit(p, round, units, unit); ++round) {
    const int32_t* pages = p.pages + unit.tile.pages_at;
    int32_t next = pages[unit.page];
    copier.CopyQueries(unit);
    for (int page = unit.page; page < unit.end; ++page) {
      const int32_t now = next;
      if (page + 1 < unit.end) next = pages[page + 1];
      copier.CopyPage(unit, now, page * kPage);
    }
  }
  while (copier.under_way > 0) copier.template Deliver<0>();
}

}  // namespace rose
