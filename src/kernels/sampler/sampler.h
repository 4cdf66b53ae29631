// Launchers of the sampler: from rows of logits to tokens, with the bits of engine/sampler.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/draw.h"

namespace rose {

// One token to draw.
struct DrawRow {
  DrawRule rule;
  int32_t logits_row = 0;
  // Rows that differ from their logits: edited_row is a row of DrawParams::edited, -1 = none.
  int32_t edited_row = -1;
  int32_t mask_row = -1;              // of DrawParams::masks, -1 = no mask
  int32_t first_edit = 0, edits = 0;  // of DrawParams::edits, each id once
};

struct DrawParams {
  const float* logits = nullptr;  // [rows, vocab]
  int64_t vocab = 0;
  const DrawRow* rows = nullptr;  // [draws], device memory as all that follows
  int64_t draws = 0;              // may be 0
  // Whether any row has a temperature, and besides top_k or top_p; kernels for what no row has are
  // not launched.
  bool any_random = true, any_top_k = true, any_top_p = true;
  const LogitEdit* edits = nullptr;
  const uint32_t* masks = nullptr;  // [mask rows, mask_words]: bit i % 32 of word i / 32 is token i
  int64_t mask_words = 0;           // what lies past the last word is excluded
  float* edited = nullptr;          // [edited rows, vocab], scratch
  void* workspace = nullptr;        // [DrawWorkspaceBytes(draws)], 16-byte aligned
  int32_t* tokens = nullptr;        // [draws]; -1 where no token is left to draw
};

int64_t DrawWorkspaceBytes(int64_t draws);

// Draws all tokens: rank by rank what Sampler::Draw does, without logprobs. Same input, same bits:
// weights are integers, so no sum depends on its order.
void LaunchDraw(const DrawParams& params, cudaStream_t stream);

// A token of a step that is a draw of the step before.
struct FedToken {
  int32_t row = 0;   // of the step
  int32_t draw = 0;  // of the step before
};

struct FeedTokensParams {
  const FedToken* fed = nullptr;  // [count]
  int64_t count = 0;              // may be 0
  const int32_t* drawn = nullptr;
  int32_t* tokens = nullptr;
};

// tokens[row] = drawn[draw]; 0 where nothing could be drawn.
void LaunchFeedTokens(const FeedTokensParams& params, cudaStream_t stream);

}  // namespace rose
