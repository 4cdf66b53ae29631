// ModelExecutor: runs steps of a model over an op set in host memory, and samples.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "engine/executor.h"
#include "engine/sampler.h"
#include "models/model.h"
#include "ops/ops.h"

namespace rose {

class ModelExecutor : public Executor {
 public:
  // A KV cache of `pages` by group, and a host tier unless `host_pages` is empty. `model` must be
  // bound to weights of `ops`; both outlive the result. kUnavailable if there is no memory.
  static Result<std::unique_ptr<ModelExecutor>> Create(const Model& model, OpSet& ops,
                                                       const std::vector<int64_t>& pages,
                                                       const std::vector<int64_t>& host_pages = {});

  const ExecutorInfo& info() const override { return info_; }
  // Only remembers the plan: all work is done in Wait.
  void Submit(const StepPlan& plan) override;
  StepResult Wait() override;

  KvCache& kv() { return kv_; }

 private:
  ModelExecutor(const Model& model, OpSet& ops) : model_(model), ops_(ops) {}

  Tensor Forward(const StepPlan& plan);
  // Add one row's outcome to a sequence's results; logits [vocab].
  void ScoreRow(const SeqPlan& seq, std::span<const float> logits, SeqResult& own);
  void DrawRow(const SeqPlan& seq, int64_t position, std::span<const float> logits, SeqResult& own);

  const Model& model_;
  OpSet& ops_;
  ExecutorInfo info_;
  KvCache kv_, host_kv_;
  const StepPlan* plan_ = nullptr;
  Sampler sampler_;
  // Inputs of the step that runs.
  std::vector<int32_t> tokens_, positions_, logit_rows_;
  std::vector<StepSeq> seqs_;
};

// Pages of every KV group within `bytes`, for an engine with `config`. kInvalidArgument, saying how
// much is needed, if not even a short request would fit.
Result<std::vector<int64_t>> PlanKvPages(const Model& model, const OpSet& ops,
                                         const EngineConfig& config, int64_t bytes);

}  // namespace rose
