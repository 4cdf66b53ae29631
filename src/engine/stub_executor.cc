#include "engine/stub_executor.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/check.h"

namespace rose {
namespace {

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
    if (options_.tokens_per_second > 0) {
      std::this_thread::sleep_for(std::chrono::duration<double>(1 / options_.tokens_per_second));
    }
    StepResult result;
    for (const SeqPlan& seq : plan.seqs) result.sampled.push_back(Draw(seq));
    return result;
  }

 private:
  std::vector<SampledToken> Draw(const SeqPlan& seq) const {
    std::vector<SampledToken> drawn;
    if (seq.samples == 0) return drawn;
    const std::vector<int32_t> answer = options_.answer
                                            ? options_.answer(seq.history.first(seq.prompt_tokens))
                                            : std::vector<int32_t>();
    const int64_t end = static_cast<int64_t>(seq.history.size());
    for (int64_t position = end - seq.samples + 1; position <= end; ++position) {
      const int64_t index = position - seq.prompt_tokens;
      const bool said = index >= static_cast<int64_t>(answer.size());
      drawn.push_back(Token(seq, position, said ? options_.end_id : answer[index]));
    }
    return drawn;
  }

  SampledToken Token(const SeqPlan& seq, int64_t position, int32_t id) const {
    const auto forbidden = [&](int32_t candidate) {
      return position < seq.forbidden_until &&
             std::find(seq.forbidden_ids.begin(), seq.forbidden_ids.end(), candidate) !=
                 seq.forbidden_ids.end();
    };
    while (forbidden(id)) id = Next(id);
    SampledToken token;
    token.id = id;
    if (seq.sampling->logprobs < 0) return token;
    token.logprob = -0.1f;
    for (int n = 0; n < seq.sampling->logprobs; ++n, id = Next(id)) {
      token.top.push_back({.id = id, .logprob = -0.1f - static_cast<float>(n)});
    }
    return token;
  }

  int32_t Next(int32_t id) const { return static_cast<int32_t>((id + 1) % options_.vocab); }

  const StubOptions options_;
  ExecutorInfo info_;
  const StepPlan* plan_ = nullptr;
};

}  // namespace

std::unique_ptr<Executor> CreateStubExecutor(StubOptions options) {
  return std::make_unique<StubExecutor>(std::move(options));
}

}  // namespace rose
