// Launchers of the sampler: from rows of logits to tokens, with the bits of engine/sampler.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace rose {

// What is changed about one logit before a draw. In this order: the bias is added; the penalties of
// the row for a token that occurred; it is excluded.
struct LogitEdit {
  int32_t id = 0;
  float bias = 0;            // 0 = none
  int32_t occurrences = -1;  // in the output; -1 = it occurred neither there nor in the prompt
  bool excluded = false;
};

// One token to draw.
struct DrawRow {
  int32_t logits_row = 0;
  float inverse_temperature = 0;  // 0 = the largest logit is taken
  float min_p_bound = 0;          // (logit - largest) * inverse_temperature is at least this
  int32_t top_k = 0;              // 0 = all
  double top_p = 1;               // >= 1 = all
  uint64_t word = 0;              // DrawWord(seed, position)
  // Rows that differ from their logits: edited_row is a row of DrawParams::edited, -1 = none.
  int32_t edited_row = -1;
  int32_t mask_row = -1;  // of DrawParams::masks, -1 = no mask
  int32_t first_edit = 0, edits = 0;  // of DrawParams::edits, each id once
  float repetition_penalty = 1, frequency_penalty = 0, presence_penalty = 0;
};

struct DrawParams {
  const float* logits = nullptr;  // [rows, vocab]
  int64_t vocab = 0;
  const DrawRow* rows = nullptr;  // [draws], device memory as all that follows
  int64_t draws = 0;              // may be 0
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

}  // namespace rose
