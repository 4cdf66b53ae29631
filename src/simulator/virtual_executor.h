// VirtualExecutor: runs steps in no time, and moves a clock by what they would have taken.
#pragma once

#include <array>
#include <cstdint>

#include "engine/executor.h"
#include "simulator/step_costs.h"

namespace rose {

class VirtualExecutor : public Executor {
 public:
  // `costs` and `now`, in seconds, outlive it. A step begins when it is submitted, or when the one
  // before has ended; Wait moves `now` to its end.
  VirtualExecutor(ExecutorInfo info, const StepCosts& costs, double& now)
      : info_(std::move(info)), costs_(costs), now_(now) {}

  const ExecutorInfo& info() const override { return info_; }
  // Two steps may be in flight.
  void Submit(const StepPlan& plan) override;
  // Tokens drawn are made up from request and position, so that no two answers are alike.
  StepResult Wait() override;

  double busy_s() const { return busy_s_; }  // of all steps so far

 private:
  struct Flight {
    const StepPlan* plan = nullptr;
    double end_s = 0;
  };

  const ExecutorInfo info_;
  const StepCosts& costs_;
  double& now_;
  std::array<Flight, 2> flights_;
  int64_t submitted_ = 0, waited_ = 0;
  double free_s_ = 0;  // when the last step submitted ends
  double busy_s_ = 0;
};

// A made-up token of [0, vocab), a hash of its arguments.
int32_t MadeUpToken(uint64_t text, int64_t position, int64_t vocab);

}  // namespace rose
