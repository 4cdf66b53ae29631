// Runs users or prompts through the engine, and keeps what host and device did in each step.
#pragma once

#include <cstdint>
#include <vector>

#include "profile/ops.h"

namespace rose {

struct ProfileLoad {
  int64_t users = 1;
  int64_t prompt = 1024;  // tokens of each user's prompt
  int64_t steps = 200;    // measured
  int64_t prefill = 0;    // > 0: instead of users that decode, prompts of so many tokens
};

struct HostStep {
  double submit_us = 0;  // in Executor::Submit
  double wait_us = 0;    // in Executor::Wait
  double period_us = 0;  // from its Submit to that of the next
};

// Of the load's steps: those that only decode, or those of prompts. The first are left out: memory
// grows in them, and graphs are recorded.
struct ProfiledRun {
  bool is_pipelined = false;
  std::vector<TimedStep> steps;
  std::vector<HostStep> host;  // as steps
};

// `timing` is of the GPU; on a CPU, every op's time is taken. Fails where there is no memory, or a
// request fails.
Result<ProfiledRun> RunProfile(const LoadedModel& loaded, const ProfileLoad& load, OpTiming timing,
                               bool is_pipelined);

}  // namespace rose
