#include "profile/run.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "bench/made_up_prompt.h"
#include "engine/engine.h"
#include "engine/model_executor.h"
#include "model_loading.h"
#include "ops/cuda/cuda_ops.h"
#include "profile/timed_ops.h"

namespace rose {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kWarmUpSteps = 8;
constexpr int64_t kWarmUpPrompts = 2;

double MicrosecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

// A step as the host saw it.
struct Seen {
  std::vector<SequenceWork> seqs;
  Clock::time_point submitted;
  HostStep host;
};

// Another executor, and a watch beside it. Used by the engine's thread.
class WatchedExecutor : public Executor {
 public:
  WatchedExecutor(std::unique_ptr<Executor> executor, std::vector<Seen>& steps)
      : executor_(std::move(executor)), steps_(steps) {}

  const ExecutorInfo& info() const override { return executor_->info(); }

  void Submit(const StepPlan& plan) override {
    const Clock::time_point begin = Clock::now();
    Seen& step = steps_.emplace_back();
    for (const SeqPlan& seq : plan.seqs) {
      step.seqs.push_back({seq.start, std::ssize(seq.tokens), seq.samples});
    }
    step.submitted = begin;
    executor_->Submit(plan);
    step.host.submit_us = MicrosecondsSince(begin);
  }

  StepResult Wait() override {
    const Clock::time_point begin = Clock::now();
    StepResult result = executor_->Wait();
    steps_[waited_++].host.wait_us = MicrosecondsSince(begin);
    return result;
  }

 private:
  const std::unique_ptr<Executor> executor_;
  std::vector<Seen>& steps_;
  size_t waited_ = 0;
};

// Waits for the ends of requests.
class Ends {
 public:
  void Take(const TokenEvent& event) {
    if (event.finish == FinishReason::kNone) return;
    const std::lock_guard lock(mutex_);
    if (event.finish != FinishReason::kLength) error_ = StrCat("a request failed: ", event.error);
    ++ended_;
    changed_.notify_one();
  }

  Status Wait(int64_t requests) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ == requests; });
    return error_.empty() ? Status() : Status(StatusCode::kInternal, error_);
  }

 private:
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  int64_t ended_ = 0;
  std::string error_;
};

Request MakeRequest(int64_t number, int64_t prompt, int64_t tokens, int64_t vocab, Ends& ends) {
  Request request;
  request.prompt = MadeUpPrompt(number, prompt, vocab);
  request.max_tokens = tokens;
  request.sampling.temperature = 0;
  request.on_event = [&ends](const TokenEvent& event) { ends.Take(event); };
  return request;
}

Status RunRequests(Engine& engine, const ProfileLoad& load) {
  Ends ends;  // outlives the requests: they end before this returns
  if (load.prefill == 0) {
    for (int64_t user = 0; user < load.users; ++user) {
      // Users begin one after the other: some have a few tokens more than the last.
      ROSE_RETURN_IF_ERROR(
          engine
              .Submit(MakeRequest(user, load.prompt, load.steps + kWarmUpSteps + 2 * load.users,
                                  engine.vocab(), ends))
              .status());
    }
    return ends.Wait(load.users);
  }
  // One more than is measured: the period of a step ends where the next begins.
  for (int64_t i = 0; i < load.steps + kWarmUpPrompts + 1; ++i) {
    ROSE_RETURN_IF_ERROR(
        engine.Submit(MakeRequest(i, load.prefill, 1, engine.vocab(), ends)).status());
    ROSE_RETURN_IF_ERROR(ends.Wait(i + 1));
  }
  return Status();
}

// Cuts what the device was at into steps, each of which begins with an upload.
std::vector<std::vector<TimedOp>> CutSteps(std::vector<TimedOp> times) {
  std::vector<std::vector<TimedOp>> steps;
  for (TimedOp& timed : times) {
    if (timed.op.name != nullptr && std::string_view(timed.op.name) == "upload") {
      steps.emplace_back();
    }
    if (!steps.empty()) steps.back().push_back(std::move(timed));
  }
  return steps;
}

bool IsOfLoad(const ProfileLoad& load, const std::vector<SequenceWork>& seqs) {
  const bool is_decode =
      std::ranges::all_of(seqs, [](const SequenceWork& seq) { return seq.rows == 1; });
  if (load.prefill > 0) return !is_decode;
  return is_decode && std::ssize(seqs) == load.users;
}

}  // namespace

Result<ProfiledRun> RunProfile(const LoadedModel& loaded, const ProfileLoad& load, OpTiming timing,
                               bool is_pipelined) {
  const bool on_gpu = IsOnGpu(*loaded.ops);
  if (on_gpu) TimeCudaOps(*loaded.ops, timing);
  EngineConfig config;
  config.max_running = load.users;
  config.max_context =
      std::max(load.prefill + 1, load.prompt + load.steps + kWarmUpSteps + 2 * load.users);
  if (load.prefill > 0) config.max_step_tokens = load.prefill;
  config.prefix_cache = false;
  config.pipeline = is_pipelined;
  ROSE_ASSIGN_OR_RETURN(
      const std::vector<int64_t> pages,
      PlanKvPages(*loaded.model, *loaded.ops, config, std::numeric_limits<int64_t>::max()));
  TimedOps timed(*loaded.ops);  // of a CPU
  OpSet& ops = on_gpu ? *loaded.ops : timed;
  ROSE_ASSIGN_OR_RETURN(auto executor, CreateExecutor(*loaded.model, ops, pages));
  std::vector<Seen> seen;
  {
    const auto engine = CreateEngine(
        config, std::make_unique<WatchedExecutor>(std::move(executor), seen), CreatePlainDecoder());
    ROSE_RETURN_IF_ERROR(RunRequests(*engine, load));
  }
  std::vector<std::vector<TimedOp>> times =
      CutSteps(on_gpu ? TakeCudaTimes(*loaded.ops) : timed.Take());
  if (on_gpu) TimeCudaOps(*loaded.ops, OpTiming::kOff);
  ProfiledRun run{.is_pipelined = is_pipelined, .steps = {}, .host = {}};
  int64_t left_out = load.prefill > 0 ? kWarmUpPrompts : kWarmUpSteps;
  // The last step has none behind it, which would say how long it took.
  for (size_t i = 0; i + 1 < std::min(seen.size(), times.size()); ++i) {
    if (!IsOfLoad(load, seen[i].seqs) || left_out-- > 0) continue;
    if (std::ssize(run.steps) == load.steps) break;
    HostStep host = seen[i].host;
    host.period_us =
        std::chrono::duration<double, std::micro>(seen[i + 1].submitted - seen[i].submitted)
            .count();
    run.steps.push_back({std::move(seen[i].seqs), std::move(times[i])});
    run.host.push_back(host);
  }
  ROSE_CHECK(!run.steps.empty(), "no step of the load among ", seen.size());
  return run;
}

}  // namespace rose
