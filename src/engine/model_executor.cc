#include "engine/model_executor.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/engine_limits.h"

namespace rose {

Result<std::unique_ptr<ModelExecutor>> ModelExecutor::Create(
    const Model& model, OpSet& ops, const std::vector<int64_t>& pages,
    const std::vector<int64_t>& host_pages) {
  std::unique_ptr<ModelExecutor> executor(new ModelExecutor(model, ops));
  executor->info_ = {.vocab = model.info().vocab,
                     .max_positions = model.info().max_positions,
                     .kv = model.info().kv,
                     .pages = pages,
                     .host_pages = host_pages};
  ROSE_ASSIGN_OR_RETURN(executor->kv_, ops.AllocateKv(model.info().kv, pages));
  if (!host_pages.empty()) {
    ROSE_ASSIGN_OR_RETURN(executor->host_kv_, ops.AllocateHostKv(model.info().kv, host_pages));
  }
  return executor;
}

void ModelExecutor::Submit(const StepPlan& plan) {
  ROSE_CHECK(plan_ == nullptr, "a step is in flight");
  plan_ = &plan;
}

StepResult ModelExecutor::Wait() {
  ROSE_CHECK(plan_ != nullptr, "no step is in flight");
  const StepPlan& plan = *std::exchange(plan_, nullptr);
  const Tensor logits = Forward(plan);
  StepResult result;
  int64_t row = 0;
  const auto next_row = [&] {
    return std::span(logits.data<float>() + row++ * info_.vocab, static_cast<size_t>(info_.vocab));
  };
  for (const SeqPlan& seq : plan.seqs) {
    const int64_t end = row + seq.scored + seq.samples;
    SeqResult& own = result.seqs.emplace_back();
    for (int64_t i = 0; i < seq.scored && own.error.empty(); ++i) ScoreRow(seq, next_row(), own);
    for (int64_t i = 0; i < seq.samples && own.error.empty(); ++i) {
      const int64_t position = std::ssize(seq.history) - seq.samples + 1 + i;
      DrawRow(seq, position, next_row(), own);
      // Draws behind a rejected draft do not count, and a constraint need not know what it says.
      if (i + 1 < seq.samples && own.error.empty() &&
          own.sampled.back().id != seq.history[position]) {
        break;
      }
    }
    row = end;
  }
  return result;
}

void ModelExecutor::ScoreRow(const SeqPlan& seq, std::span<const float> logits, SeqResult& own) {
  const int64_t position = seq.score_from + std::ssize(own.scored);
  Result<SampledToken> token = sampler_.Score(logits, seq.history[position + 1], seq.score_top);
  if (token.ok()) {
    own.scored.push_back(std::move(*token));
  } else {
    own.error = StrCat("request ", seq.id, ": position ", position, ": ", token.status().message());
  }
}

// Draws the token at `position`.
void ModelExecutor::DrawRow(const SeqPlan& seq, int64_t position, std::span<const float> logits,
                            SeqResult& own) {
  SampleRow row;
  row.id = seq.id;
  row.logits = logits;
  row.params = seq.sampling;
  row.seed = seq.seed;
  row.history = seq.history.first(position);
  row.prompt_tokens = seq.prompt_tokens;
  if (position < seq.forbidden_until) row.forbidden_ids = seq.forbidden_ids;
  if (seq.constraint != nullptr) {
    const auto mask = seq.constraint->Allowed(row.history.subspan(seq.prompt_tokens));
    if (!mask.ok()) {
      own.error = mask.status().message();
      return;
    }
    row.mask = *mask;
  }
  Result<SampledToken> token = sampler_.Draw(row);
  if (token.ok()) {
    own.sampled.push_back(std::move(*token));
  } else {
    own.error = token.status().message();
  }
}

// Logits F32 [scored and sampled rows, vocab], valid until the next step.
Tensor ModelExecutor::Forward(const StepPlan& plan) {
  tokens_.clear();
  positions_.clear();
  logit_rows_.clear();
  seqs_.clear();
  for (const SeqPlan& seq : plan.seqs) {
    const int64_t rows = std::ssize(seq.tokens);
    seqs_.push_back({.first_row = std::ssize(tokens_),
                     .rows = rows,
                     .start = seq.start,
                     .pages = {seq.pages.begin(), seq.pages.end()}});
    tokens_.insert(tokens_.end(), seq.tokens.begin(), seq.tokens.end());
    for (int64_t i = 0; i < rows; ++i) positions_.push_back(static_cast<int32_t>(seq.start + i));
    const int64_t first = std::ssize(tokens_) - rows;
    for (int64_t i = 0; i < seq.scored; ++i) {
      logit_rows_.push_back(static_cast<int32_t>(first + seq.score_from - seq.start + i));
    }
    for (int64_t i = seq.samples; i > 0; --i) {
      logit_rows_.push_back(static_cast<int32_t>(std::ssize(tokens_) - i));
    }
  }
  ops_.CopyPages(kv_, host_kv_, plan.copies);
  const Tensor logits =
      ops_.ToHost(model_.Forward(ops_, kv_, {tokens_, positions_, seqs_, logit_rows_}));
  if (!logit_rows_.empty()) {
    ROSE_CHECK_EQ(logits.dim(0), std::ssize(logit_rows_));
    ROSE_CHECK_EQ(logits.dim(1), info_.vocab);
  }
  return logits;
}

Result<std::vector<int64_t>> PlanKvPages(const Model& model, const OpSet& ops,
                                         const EngineConfig& config, int64_t bytes) {
  return PlanKvPages(model.info().kv, ops.kv_dtype(), model.info().max_positions, config, bytes);
}

}  // namespace rose
