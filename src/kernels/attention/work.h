// What the attention kernels walk over, in device memory: made by LaunchPlanAttention.
#pragma once

#include <cstdint>

#include "kernels/attention/attention.h"
#include "tensor/kv_layout.h"

namespace rose {

constexpr int kPage = KvLayout::kPageSize;  // keys of a page, and of a tile of the online softmax
constexpr int kSplitPages = 8;              // pages of a split: position / 512
// Splits whose partial results fit the workspace. A row whose splits do not fit any more is walked
// by one CTA, with the same bits.
constexpr int kSplitSlots = 4096;

constexpr int kTileQueries = 64;  // queries of a tile: its tokens times the heads of a KV head
constexpr int kDecodeHeads = 8;   // query heads that a decode CTA computes

// Whether head_dim has kernels of its own, for decode rows and for tiles; otherwise all rows are
// tiles of the general kernel.
bool IsFast(const AttentionLimits& limits);

// One decode row's splits [split, split + splits) of its keys, for every KV head.
struct DecodeItem {
  int32_t row = 0;
  int32_t position = 0;
  int32_t pages_at = 0;  // its page table in DeviceStep::pages
  int32_t split = 0;     // the first, as position / 512
  int32_t splits = 0;
  int32_t parts = 0;  // items of this row; 1: the result is final
  int32_t part = 0;   // which of them this is
  int32_t slot = 0;   // of the row's first partial result; slot + part is this item's
};

// A decode row of several items, whose sums are merged afterwards.
struct CutRow {
  int32_t row = 0;
  int32_t slot = 0;  // of its first partial result
  int32_t parts = 0;
};

// Consecutive rows of a sequence that walk over its keys together.
struct RowTile {
  int32_t row = 0;  // the first, in the step
  int32_t rows = 0;
  int32_t position = 0;  // of the first
  int32_t pages_at = 0;
};

struct WorkCounts {
  int32_t decode_items = 0;
  int32_t tiles = 0;
  int32_t cut_rows = 0;
  int32_t unused[61] = {};
};

// Where things lie in a workspace.
struct AttentionWork {
  WorkCounts* counts = nullptr;
  DecodeItem* items = nullptr;  // [rows + slots]
  RowTile* tiles = nullptr;     // [rows / tile_rows + seqs], of a sequence the longest walk first
  CutRow* cut_rows = nullptr;   // [slots / 2]
  float* partials = nullptr;    // [slots, heads, head_dim + 2]: sums, then offset and weight sum
  int64_t item_capacity = 0;
  int64_t tile_capacity = 0;
  int32_t slots = 0;
  int32_t tile_rows = 0;  // tokens of a tile
};

// Also without memory, for its size.
AttentionWork LayOutWork(const AttentionLimits& limits, void* workspace, int64_t* bytes);

// What the kernels that attend take: AttentionParams, in the widths that they compute with.
struct AttendParams {
  const Bf16* qkv;
  const Bf16* keys;
  const Bf16* values;
  const Bf16* sinks;
  Bf16* out;
  const int32_t* pages;
  AttentionWork work;
  int64_t qkv_stride;
  int heads, kv_heads, group;  // group: query heads of a KV head
  int blocks;                  // of kDecodeHeads of these
  int dim;                     // of a head
  int window;
  float scale;  // of scores: 1 / sqrt(dim), and log2(e), since weights are powers of two
};

AttendParams MakeAttendParams(const AttentionParams& params);

// Tiles that the rows of a step can make.
inline int64_t TileBound(const AttentionParams& params, const AttentionWork& work) {
  return params.step.rows / work.tile_rows + params.step.seq_count;
}

// Queries of a tile of the prefill kernel.
int PrefillQueries(int64_t head_dim);

// Streaming multiprocessors of the current device.
int64_t SmCount();

// Makes the list. Reads step.seqs, seq_count and rows, limits, group and workspace.
void LaunchPlanAttention(const AttentionParams& params, cudaStream_t stream);
void LaunchPrefillAttention(const AttentionParams& params, cudaStream_t stream);
void LaunchTileAttention(const AttentionParams& params, cudaStream_t stream);
void LaunchDecodeAttention(const AttentionParams& params, cudaStream_t stream);
// The rows that the decode kernel cut.
void LaunchMergeAttention(const AttentionParams& params, cudaStream_t stream);

}  // namespace rose
