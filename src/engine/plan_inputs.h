// PlanInputs: what a model computes in a step, from the engine's plan. Keeps its memory.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/step.h"
#include "request/step_plan.h"

namespace rose {

struct PlanInputs {
  std::vector<int32_t> tokens, positions, logit_rows;
  std::vector<StepSeq> seqs;
  std::vector<FedRow> fed;

  // All but `fed`. Logit rows are by sequence, scored ones first.
  void Fill(const StepPlan& plan);
  Step step() const { return {tokens, positions, seqs, logit_rows, fed}; }
};

}  // namespace rose
