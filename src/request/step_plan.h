// The plan of one step and its result: plain data between engine and executor.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "request/request.h"

namespace rose {

// One sequence's share of a step.
struct SeqPlan {
  RequestId id = 0;
  int64_t start = 0;                // position of tokens[0]
  std::span<const int32_t> tokens;  // to compute: part of the prompt, or the last token + draft
  std::vector<std::span<const int32_t>> pages;  // by KV group, see ops/step.h
  // How many of the last rows are sampled: 0 for a prompt's inner chunk, 1 for plain decoding,
  // 1 + draft tokens when a draft is verified.
  int64_t samples = 0;
  // What sampling needs; valid while the step runs.
  const SamplingParams* sampling = nullptr;
  uint64_t seed = 0;                       // sampling->seed, or the one the engine picked
  std::span<const int32_t> history;        // prompt and output so far, for penalties
  int64_t prompt_tokens = 0;               // how much of history is the prompt
  std::span<const int32_t> forbidden_ids;  // not drawn (stop ids before min_tokens)
};

struct StepPlan {
  std::vector<SeqPlan> seqs;
};

struct StepResult {
  // [sequence of the plan][sampled row]: the token drawn after each sampled row.
  std::vector<std::vector<SampledToken>> sampled;
};

}  // namespace rose
