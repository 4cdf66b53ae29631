// Lists the work of a step's attention: decode rows cut into splits, other rows into tiles.
// Work   one CTA; a thread counts for one sequence, a warp writes a sequence's entries.
// Bound  latency.
#include <algorithm>

#include "base/check.h"
#include "device/launch.h"
#include "kernels/attention/work.h"
#include "kernels/common/ptx/bulk_copy.cuh"

namespace rose {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kSplit = kSplitPages * kPage;

struct PlanParams {
  const DeviceSeq* seqs;
  int seq_count;
  int group;
  int window;
  int decode_rows;  // rows of a sequence up to which they are decode rows
  AttentionWork work;
};

// What comes before thread t's `value` in thread order; `total` becomes the sum of all.
__device__ int SumBefore(int value, int* scratch, int* total) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int sum = value;
  for (int offset = 1; offset < 32; offset *= 2) {
    const int other = __shfl_up_sync(~0u, sum, offset);
    if (lane >= offset) sum += other;
  }
  __syncthreads();  // `scratch` may still be read for the sum before
  if (lane == 31) scratch[warp] = sum;
  __syncthreads();  // all warps' sums are there
  int before = sum - value;
  *total = 0;
  for (int w = 0; w < kWarps; ++w) {
    if (w < warp) before += scratch[w];
    *total += scratch[w];
  }
  return before;
}

__device__ int FirstSplit(int position, int window) {
  return window > 0 ? max(0, position - window + 1) / kSplit : 0;
}

struct SeqWork {
  DeviceSeq seq;
  int items, tiles;  // where its entries begin
  int slot;          // its first slot, or -1: one item a row
  int cut_rows;      // where its rows of several items begin
};

__device__ void WriteItems(const PlanParams& p, const SeqWork& s, int lane) {
  int item = s.items, slot = s.slot, cut_row = s.cut_rows;
  for (int r = 0; r < s.seq.rows; ++r) {
    const int position = s.seq.start + r, first = FirstSplit(position, p.window);
    const int splits = position / kSplit + 1 - first;
    const bool is_cut = slot >= 0 && splits > 1;
    const int parts = is_cut ? splits : 1;
    for (int i = lane; i < parts; i += 32) {
      p.work.items[item + i] = {.row = s.seq.first_row + r,
                                .position = position,
                                .pages_at = s.seq.pages_at[p.group],
                                .split = first + i,
                                .splits = is_cut ? 1 : splits,
                                .parts = parts,
                                .part = i,
                                .slot = is_cut ? slot : 0};
    }
    item += parts;
    if (is_cut) {
      if (lane == 0) {
        p.work.cut_rows[cut_row] = {.row = s.seq.first_row + r, .slot = slot, .parts = parts};
      }
      ++cut_row;
      slot += splits;
    }
  }
}

__device__ void WriteTiles(const PlanParams& p, const SeqWork& s, int lane) {
  const int size = p.work.tile_rows, tiles = (s.seq.rows + size - 1) / size;
  for (int i = lane; i < tiles; i += 32) {
    const int first = (tiles - 1 - i) * size;  // the longest walk first
    p.work.tiles[s.tiles + i] = {.row = s.seq.first_row + first,
                                 .rows = min(size, s.seq.rows - first),
                                 .position = s.seq.start + first,
                                 .pages_at = s.seq.pages_at[p.group]};
  }
}

__global__ void __launch_bounds__(kThreads)
    sm90_plan_attention_kernel(const __grid_constant__ PlanParams p) {
  __shared__ int scratch[kWarps];
  __shared__ SeqWork work[kThreads];
  ptx::DependencyWait();
  int slots = 0, items = 0, tiles = 0, rows = 0;  // of the sequences before this round's
  for (int from = 0; from < p.seq_count; from += kThreads) {
    SeqWork mine{};
    if (from + threadIdx.x < p.seq_count) mine.seq = p.seqs[from + threadIdx.x];
    const bool is_decode = mine.seq.rows <= p.decode_rows;
    int splits = 0, cut = 0, cut_rows = 0;
    for (int r = 0; is_decode && r < mine.seq.rows; ++r) {
      const int position = mine.seq.start + r;
      const int n = position / kSplit + 1 - FirstSplit(position, p.window);
      splits += n;
      if (n > 1) {
        cut += n;
        ++cut_rows;
      }
    }
    int total;
    const int slot = slots + SumBefore(cut, scratch, &total);
    slots += total;
    const bool fits = slot + cut <= p.work.slots;
    mine.slot = fits ? slot : -1;
    mine.items = items + SumBefore(!is_decode ? 0 : fits ? splits : mine.seq.rows, scratch, &total);
    items += total;
    mine.cut_rows = rows + SumBefore(fits ? cut_rows : 0, scratch, &total);
    rows += total;
    const int size = p.work.tile_rows;
    mine.tiles =
        tiles + SumBefore(is_decode ? 0 : (mine.seq.rows + size - 1) / size, scratch, &total);
    tiles += total;
    work[threadIdx.x] = mine;
    __syncthreads();  // all of `work` is there
    const int there = min(kThreads, p.seq_count - from);
    for (int i = threadIdx.x / 32; i < there; i += kWarps) {
      if (work[i].seq.rows <= p.decode_rows) {
        WriteItems(p, work[i], threadIdx.x % 32);
      } else {
        WriteTiles(p, work[i], threadIdx.x % 32);
      }
    }
    __syncthreads();  // `work` may be written again
  }
  if (threadIdx.x == 0) *p.work.counts = {.decode_items = items, .tiles = tiles, .cut_rows = rows};
}

}  // namespace

void LaunchPlanAttention(const AttentionParams& params, cudaStream_t stream) {
  const AttentionLimits& limits = params.limits;
  ROSE_CHECK(params.step.rows <= limits.rows && params.step.seq_count <= limits.seqs,
             "rows=", params.step.rows, " of ", limits.rows, ", seqs=", params.step.seq_count,
             " of ", limits.seqs);
  ROSE_CHECK(params.group >= 0 && params.group < kMaxKvGroups, "group=", params.group);
  PlanParams plan{.seqs = params.step.seqs,
                  .seq_count = static_cast<int>(params.step.seq_count),
                  .group = params.group,
                  .window = static_cast<int>(limits.window),
                  .decode_rows = IsFast(limits) ? kDecodeRows : 0,
                  .work = LayOutWork(limits, params.workspace, nullptr)};
  if (params.step.rows == 0) return;
  Launch("sm90_plan_attention", sm90_plan_attention_kernel,
         {.grid = dim3(1), .block = dim3(kThreads), .dependent = true}, stream, plan);
}

}  // namespace rose
