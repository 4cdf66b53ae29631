// The plan of one step and its result: plain data between engine and executor.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "request/request.h"
#include "tensor/kv_layout.h"

namespace rose {

// One sequence's share of a step.
struct SeqPlan {
  RequestId id = 0;
  int64_t start = 0;  // position of tokens[0]
  // To compute: a part of the prompt, or the last token and a draft.
  std::span<const int32_t> tokens;
  std::span<const std::span<const int32_t>> pages;  // by KV group, see ops/step.h
  // How many of the last rows are sampled: 0 for a prompt's inner chunk, 1 for plain decoding,
  // 1 + draft tokens when a draft is verified.
  int64_t samples = 0;
  // What sampling needs; valid while the step runs.
  const SamplingParams* sampling = nullptr;
  uint64_t seed = 0;  // sampling->seed, or the one the engine picked
  // The tokens at positions 0 .. start + tokens.size(), so `tokens` is its end. The draw after the
  // row at position p has position p + 1 and sees the first p + 1 of them.
  std::span<const int32_t> history;
  int64_t prompt_tokens = 0;  // how much of history is the prompt; the rest counts for penalties
  // >= 0: the last token is not known yet. It is the last draw of seqs[fed_from] of the step
  // before, which is still in flight; before the step runs the executor writes it to *fed_token,
  // the end of history. Where that draw failed any token will do: nobody looks at the result.
  int64_t fed_from = -1;
  int32_t* fed_token = nullptr;
  std::span<const int32_t> forbidden_ids;  // not drawn at positions below forbidden_until
  int64_t forbidden_until = 0;
  // Asked before every draw, with history from prompt_tokens to the draw's position. Null = none.
  TokenConstraint* constraint = nullptr;
  // Of `scored` rows from the row at position `score_from` on, the logprob of the prompt token that
  // follows is wanted, and those of the `score_top` most likely. None of them is sampled.
  int64_t score_from = 0;
  int64_t scored = 0;
  int64_t score_top = 0;
};

struct StepPlan {
  PageCopies copies;  // made before anything is computed
  std::vector<SeqPlan> seqs;
  // What SeqPlan::pages points into, [seqs * groups], and what these in turn point into.
  std::vector<std::span<const int32_t>> tables;
  std::vector<int32_t> page_ids;
};

// One sequence's share of a result.
struct SeqResult {
  // The token drawn after each sampled row. Rows behind a draw that differs from its draft need not
  // be drawn, since they do not count.
  std::vector<SampledToken> sampled;
  std::vector<SampledToken> scored;  // one for each scored row: the prompt token that follows it
  // Why the next row could not be drawn or scored; the request ends. Empty = nothing failed.
  std::string error;
};

struct StepResult {
  std::vector<SeqResult> seqs;  // as in the plan
};

}  // namespace rose
