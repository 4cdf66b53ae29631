// StepRunner: runs a model without an engine. Every sequence owns a fixed run of pages, and the
// caller says what each step computes. For the logits command, measurements and tests.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "models/model.h"

namespace rose {

// Tokens to append to a sequence in one step.
struct SequenceTokens {
  int64_t sequence = 0;
  std::span<const int32_t> tokens;  // >= 1
};

class StepRunner {
 public:
  // Room for `sequences` of at most `max_tokens` each; kUnavailable if there is no memory. `model`
  // must be bound to weights of `ops`; both must outlive the result.
  static Result<std::unique_ptr<StepRunner>> Create(const Model& model, OpSet& ops,
                                                    int64_t sequences, int64_t max_tokens);

  // Runs one step; every sequence at most once. Returns logits F32 [logit_rows, vocab] for the
  // given rows (ascending, counted over all tokens of the step); valid until the next step.
  Tensor Run(std::span<const SequenceTokens> step, std::span<const int32_t> logit_rows);
  // The next position of a sequence.
  int64_t length(int64_t sequence) const { return lengths_[sequence]; }
  // Forgets all positions from `length` on.
  void Truncate(int64_t sequence, int64_t length);
  KvCache& kv() { return kv_; }

 private:
  StepRunner(const Model& model, OpSet& ops) : model_(model), ops_(ops) {}

  const Model& model_;
  OpSet& ops_;
  KvCache kv_;
  std::vector<std::vector<int32_t>> pages_;  // [sequence]; the same table for every KV group
  std::vector<int64_t> lengths_;             // [sequence]
};

}  // namespace rose
