#include "simulator/virtual_executor.h"

#include <algorithm>

#include "base/check.h"

namespace rose {

int32_t MadeUpToken(uint64_t text, int64_t position, int64_t vocab) {
  uint64_t hash = text * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(position);
  hash = (hash ^ (hash >> 32)) * 0xd6e8feb86659fd93u;
  hash = (hash ^ (hash >> 32)) * 0xd6e8feb86659fd93u;
  return static_cast<int32_t>((hash >> 32) % static_cast<uint64_t>(vocab));
}

void VirtualExecutor::Submit(const StepPlan& plan) {
  ROSE_CHECK_LT(submitted_ - waited_, std::ssize(flights_));
  const double seconds = costs_.Milliseconds(ShapeOf(plan)) / 1000;
  free_s_ = std::max(free_s_, now_) + seconds;
  busy_s_ += seconds;
  flights_[submitted_++ % flights_.size()] = {&plan, free_s_};
}

StepResult VirtualExecutor::Wait() {
  ROSE_CHECK_GT(submitted_, waited_);
  const Flight flight = flights_[waited_++ % flights_.size()];
  now_ = std::max(now_, flight.end_s);
  StepResult result;
  result.seqs.resize(flight.plan->seqs.size());
  for (size_t i = 0; i < result.seqs.size(); ++i) {
    const SeqPlan& seq = flight.plan->seqs[i];
    const int64_t end = std::ssize(seq.history);
    if (seq.fed_token != nullptr) *seq.fed_token = MadeUpToken(~seq.id, end - 1, info_.vocab);
    result.seqs[i].scored.resize(seq.scored);
    for (int64_t position = end - seq.samples + 1; position <= end; ++position) {
      result.seqs[i].sampled.push_back({.id = MadeUpToken(~seq.id, position, info_.vocab)});
    }
  }
  return result;
}

}  // namespace rose
