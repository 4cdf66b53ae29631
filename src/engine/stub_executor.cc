#include "engine/stub_executor.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/check.h"

namespace rose {
namespace {

using Clock = std::chrono::steady_clock;

class StubExecutor : public Executor {
 public:
  explicit StubExecutor(StubOptions options) : options_(std::move(options)) {
    info_.vocab = options_.vocab;
    info_.max_positions = options_.max_positions;
    info_.kv.groups = {{.window = 128, .layers = {0}}, {.window = 0, .layers = {1}}};
    info_.kv.kv_heads = 1;
    info_.kv.head_dim = 1;
    info_.pages = {options_.pages, options_.pages};
  }

  const ExecutorInfo& info() const override { return info_; }

  void Submit(const StepPlan& plan) override {
    ROSE_CHECK(plan_ == nullptr, "a step is in flight");
    plan_ = &plan;
  }

  StepResult Wait() override {
    ROSE_CHECK(plan_ != nullptr, "no step is in flight");
    const StepPlan& plan = *std::exchange(plan_, nullptr);
    if (options_.tokens_per_second > 0) KeepPace();
    StepResult result;
    for (const SeqPlan& seq : plan.seqs) result.seqs.push_back(Run(seq));
    return result;
  }

 private:
  // One step in every period, whatever the caller does between steps; time that was missed is not
  // made up for.
  void KeepPace() {
    const auto period = std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(1 / options_.tokens_per_second));
    const Clock::time_point now = Clock::now();
    due_ = std::max(due_ + period, now);
    if (due_ > now + period) due_ = now + period;
    std::this_thread::sleep_until(due_);
  }

  SeqResult Run(const SeqPlan& seq) const {
    SeqResult result;
    for (int64_t i = 0; i < seq.scored; ++i) {
      result.scored.push_back(Token(seq.history[seq.score_from + 1 + i], seq.score_top));
    }
    if (seq.samples == 0) return result;
    const std::vector<int32_t> answer = options_.answer
                                            ? options_.answer(seq.history.first(seq.prompt_tokens))
                                            : std::vector<int32_t>();
    const int64_t end = static_cast<int64_t>(seq.history.size());
    for (int64_t position = end - seq.samples + 1; position <= end; ++position) {
      const int64_t index = position - seq.prompt_tokens;
      const bool said = index >= static_cast<int64_t>(answer.size());
      const Result<int32_t> id = Draw(seq, position, said ? options_.end_id : answer[index]);
      if (!id.ok()) {
        result.error = id.status().message();
        break;
      }
      result.sampled.push_back(Token(*id, seq.sampling->logprobs));
      if (position < end && *id != seq.history[position]) break;
    }
    return result;
  }

  // The token at `position`: `id`, or the next that nothing excludes.
  Result<int32_t> Draw(const SeqPlan& seq, int64_t position, int32_t id) const {
    std::span<const uint32_t> mask;
    if (seq.constraint != nullptr) {
      const auto output = seq.history.first(position).subspan(seq.prompt_tokens);
      ROSE_ASSIGN_OR_RETURN(mask, seq.constraint->Allowed(output));
    }
    const auto in_mask = [&](int32_t candidate) {
      return mask.empty() || (candidate / 32 < std::ssize(mask) &&
                              (mask[candidate / 32] >> (candidate % 32) & 1) != 0);
    };
    const auto forbidden = [&](int32_t candidate) {
      return position < seq.forbidden_until &&
             std::find(seq.forbidden_ids.begin(), seq.forbidden_ids.end(), candidate) !=
                 seq.forbidden_ids.end();
    };
    int32_t in_mask_only = -1;
    for (int64_t tried = 0; tried < options_.vocab; ++tried, id = Next(id)) {
      if (!in_mask(id)) continue;
      if (!forbidden(id)) return id;
      if (in_mask_only < 0) in_mask_only = id;
    }
    if (in_mask_only < 0) return Status(StatusCode::kInternal, "no token can be drawn");
    return in_mask_only;
  }

  // `top` made-up logprobs, none if negative.
  SampledToken Token(int32_t id, int64_t top) const {
    SampledToken token;
    token.id = id;
    if (top < 0) return token;
    token.logprob = -0.1f;
    for (int64_t n = 0; n < top; ++n, id = Next(id)) {
      token.top.push_back({.id = id, .logprob = -0.1f - static_cast<float>(n)});
    }
    return token;
  }

  int32_t Next(int32_t id) const { return static_cast<int32_t>((id + 1) % options_.vocab); }

  const StubOptions options_;
  ExecutorInfo info_;
  const StepPlan* plan_ = nullptr;
  Clock::time_point due_;  // of the step before
};

}  // namespace

std::unique_ptr<Executor> CreateStubExecutor(StubOptions options) {
  return std::make_unique<StubExecutor>(std::move(options));
}

}  // namespace rose
