// Executor: runs one step on a device and samples. The engine never sees streams, graphs or ops.
#pragma once

#include <cstdint>
#include <vector>

#include "request/step_plan.h"
#include "tensor/kv_layout.h"

namespace rose {

struct ExecutorInfo {
  int64_t vocab = 0;
  int64_t max_positions = 0;
  KvLayout kv;
  std::vector<int64_t> pages;       // pages available in each KV group
  std::vector<int64_t> host_pages;  // and in its host tier; empty = there is none
  bool feeds_back = false;          // two steps may be in flight (SeqPlan::fed_from)
};

class Executor {
 public:
  virtual ~Executor() = default;

  virtual const ExecutorInfo& info() const = 0;

  // Before the first step: makes ready for steps that decode up to `sequences`, so that the first
  // of a kind is as fast as the others.
  virtual void Prepare(int64_t /*sequences*/) {}

  // Starts a step. `plan` and all it points to stay valid until its Wait returns. One step may be
  // in flight; two for an executor that feeds draws back (SeqPlan::fed_from). They run in the order
  // of submission: a step finds in the pages what the step before left there.
  virtual void Submit(const StepPlan& plan) = 0;
  // Finishes the oldest step in flight. Throws CheckFailure if it failed; from then on every Wait
  // does.
  virtual StepResult Wait() = 0;
};

}  // namespace rose
