#include "engine/model_executor.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/device_executor.h"
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
  inputs_.Fill(plan);
  ops_.CopyPages(kv_, host_kv_, plan.copies);
  ops_.BeginStep(inputs_.step());
  const Tensor logits = ops_.ToHost(model_.Forward(ops_, kv_, inputs_.step()));
  if (!inputs_.logit_rows.empty()) {
    ROSE_CHECK_EQ(logits.dim(0), std::ssize(inputs_.logit_rows));
    ROSE_CHECK_EQ(logits.dim(1), info_.vocab);
  }
  StepResult result;
  const float* row = logits.data<float>();
  for (const SeqPlan& seq : plan.seqs) {
    const auto elements = static_cast<size_t>((seq.scored + seq.samples) * info_.vocab);
    result.seqs.push_back(sampling_.Run(seq, {row, elements}, info_.vocab));
    row += elements;
  }
  return result;
}

Result<std::unique_ptr<Executor>> CreateExecutor(const Model& model, OpSet& ops,
                                                 const std::vector<int64_t>& pages,
                                                 const std::vector<int64_t>& host_pages) {
  if (ops.draws() != nullptr) return CreateDeviceExecutor(model, ops, pages, host_pages);
  ROSE_ASSIGN_OR_RETURN(auto executor, ModelExecutor::Create(model, ops, pages, host_pages));
  return std::unique_ptr<Executor>(std::move(executor));
}

Result<std::vector<int64_t>> PlanKvPages(const Model& model, const OpSet& ops,
                                         const EngineConfig& config, int64_t bytes) {
  return PlanKvPages(model.info().kv, ops.kv_dtype(), model.info().max_positions, config, bytes);
}

}  // namespace rose
