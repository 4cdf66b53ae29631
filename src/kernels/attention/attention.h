// Launchers of causal attention over the paged KV cache: prefill and decode, full and sliding.
//
// The order of a row's sums is fixed (canonical.cuh) and the same in every kernel here: a row gives
// the same bits alone, in a batch, as a decode row, and in any chunk of a prompt.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/device_step.h"
#include "tensor/dtype.h"

namespace rose {

// What the workspace of a KV group is made for.
struct AttentionLimits {
  int64_t rows = 0;  // of a step
  int64_t seqs = 0;  // of a step
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t window = 0;  // as in AttentionParams
};

// Bytes of a workspace. All layers of a KV group share one; its address may be captured in graphs.
int64_t AttentionWorkspaceBytes(const AttentionLimits& limits);

struct AttentionParams {
  const Bf16* qkv = nullptr;  // [rows, qkv_stride]: heads * head_dim queries, then what is not read
  const Bf16* keys = nullptr;    // [pages, kv_heads, 64, head_dim]; those of this step are written
  const Bf16* values = nullptr;  // the same shape
  const Bf16* sinks = nullptr;   // [heads], or null: one unscaled logit more in the denominator
  Bf16* out = nullptr;           // [rows, heads * head_dim], dense; does not overlap an input
  void* workspace = nullptr;     // AttentionWorkspaceBytes(limits), aligned to 256 bytes
  DeviceStep step;               // seqs with rows == 0 are skipped; row_seq is not read
  AttentionLimits limits;        // those of the workspace
  int64_t qkv_stride = 0;        // elements; a multiple of 8
  int group = 0;                 // the KV group whose page tables are read
  // Whether every sequence of the step has kDecodeRows rows at most. The launch is then the same
  // for all steps of one seq_count, as graphs need it.
  bool is_decode = false;
  // Whether an earlier attention of this step and workspace has made the list of work already.
  bool is_planned = false;
};

// Rows of a sequence up to which each of them is computed as a decode row.
constexpr int kDecodeRows = 4;

// out = softmax(q . k / sqrt(head_dim), with the sink) . v over the keys that a row sees: those of
// its sequence up to its own position, limits.window at most (0 = all). bf16 products, f32 sums,
// weights rounded to bf16 before they meet the values, one rounding at the store.
//
// heads % kv_heads == 0 and heads / kv_heads <= 64; head_dim a multiple of 8, 128 at most (64 and
// 128 are fast). All pointers are aligned to 16 bytes. Pages that no row sees are not read, nor are
// keys and values behind the last position of a sequence or before its window. Same input, same
// bits.
void LaunchPagedAttention(const AttentionParams& params, cudaStream_t stream);

}  // namespace rose
