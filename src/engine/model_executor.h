// ModelExecutor: runs steps of a model over any op set, one at a time, and samples on the host.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "engine/executor.h"
#include "engine/host_sampling.h"
#include "engine/plan_inputs.h"
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

  const Model& model_;
  OpSet& ops_;
  ExecutorInfo info_;
  KvCache kv_, host_kv_;
  const StepPlan* plan_ = nullptr;
  PlanInputs inputs_;  // of the step that runs
  HostSampling sampling_;
};

// What suits `ops`: a DeviceExecutor where it draws tokens itself, else a ModelExecutor. Parameters
// and errors as ModelExecutor::Create.
Result<std::unique_ptr<Executor>> CreateExecutor(const Model& model, OpSet& ops,
                                                 const std::vector<int64_t>& pages,
                                                 const std::vector<int64_t>& host_pages = {});

// Pages of every KV group within `bytes`, for an engine with `config`. kInvalidArgument, saying how
// much is needed, if not even a short request would fit.
Result<std::vector<int64_t>> PlanKvPages(const Model& model, const OpSet& ops,
                                         const EngineConfig& config, int64_t bytes);

}  // namespace rose
