#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/engine_limits.h"
#include "engine/pipelined_executor.h"
#include "engine/queue_estimate.h"
#include "engine/step_loop.h"
#include "engine/validate.h"

namespace rose {
namespace {

class ThreadedEngine : public Engine {
 public:
  ThreadedEngine(const EngineConfig& config, std::unique_ptr<Executor> executor,
                 std::unique_ptr<Decoder> decoder)
      : is_pipelined_(IsPipelined(config, executor->info())),
        executor_(is_pipelined_ && !executor->info().feeds_back
                      ? CreatePipelinedExecutor(std::move(executor))
                      : std::move(executor)),
        decoder_(std::move(decoder)),
        loop_(SchedulerLimitsOf(config), *executor_, *decoder_,
              {.prefix_cache = config.prefix_cache, .pipeline = is_pipelined_}),
        on_failure_(config.on_failure),
        max_queue_(config.max_queue_seconds),
        max_open_(SchedulerLimitsOf(config).max_running + std::max<int64_t>(0, config.max_waiting)),
        stats_(loop_.stats()),
        seeds_(std::random_device{}()) {
    const ExecutorInfo& info = executor_->info();
    for (size_t g = 0; g < info.pages.size(); ++g) {
      groups_.push_back({.window = info.kv.groups[g].window, .pages = info.pages[g]});
    }
    limits_ = {.vocab = info.vocab, .page_size = KvLayout::kPageSize, .groups = groups_};
    limits_.max_context = config.max_context > 0 ? std::min(config.max_context, info.max_positions)
                                                 : LargestContext(limits_, info.max_positions);
    ROSE_CHECK(limits_.max_context >= 1, "the KV cache has no room for a single token");
    thread_ = std::thread([this] { Run(); });
  }

  ~ThreadedEngine() override {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

  Result<RequestId> Submit(Request request) override {
    ROSE_RETURN_IF_ERROR(CheckRequest(request, limits_));
    std::lock_guard lock(mutex_);
    if (!failure_.empty()) return Status(StatusCode::kInternal, "the engine failed: " + failure_);
    if (draining_ || stop_) return Unavailable("the engine is shutting down");
    if (open_ >= max_open_) {
      return Unavailable("all ", max_open_, " places are taken by requests that run or wait; ",
                         "try again later");
    }
    const int64_t queued = Queued();
    if (max_queue_.count() > 0 && queue_.Wait(queued) > max_queue_) {
      return Unavailable("the ", queued, " requests that wait will take longer than ",
                         max_queue_.count(), " s to have their turn; try again later");
    }
    ++open_;
    request.submitted = std::chrono::steady_clock::now();
    if (max_queue_.count() > 0)
      request.start_by = std::min(request.start_by, request.submitted + max_queue_);
    const uint64_t seed = request.sampling.seed ? *request.sampling.seed : seeds_();
    inbox_.push_back({.id = next_id_, .seed = seed, .request = std::move(request)});
    wake_.notify_all();
    return next_id_++;
  }

  void Cancel(RequestId id) override {
    std::lock_guard lock(mutex_);
    if (stop_) return;
    cancels_.push_back(id);
    wake_.notify_all();
  }

  EngineStats stats() const override {
    std::lock_guard lock(mutex_);
    EngineStats stats = stats_;
    stats.waiting = Queued();
    return stats;
  }

  int64_t max_context() const override { return limits_.max_context; }
  int64_t vocab() const override { return limits_.vocab; }

  bool healthy() const override {
    std::lock_guard lock(mutex_);
    return failure_.empty();
  }

  int64_t Drain(int64_t timeout_ms) override {
    // Longer than a step takes, unless the device hangs.
    constexpr auto kLastStep = std::chrono::seconds(10);
    const auto idle = [this] { return open_ == 0; };
    std::unique_lock lock(mutex_);
    draining_ = true;
    if (idle_.wait_for(lock, std::chrono::milliseconds(timeout_ms), idle)) return 0;
    const int64_t left = open_;
    cancel_all_ = true;
    wake_.notify_all();
    idle_.wait_for(lock, kLastStep, idle);
    return left;
  }

 private:
  struct Letter {
    RequestId id = 0;
    uint64_t seed = 0;
    Request request;
  };

  // The thread's main: the only place that catches our own bugs.
  void Run() {
    FinishReason reason = FinishReason::kCancelled;
    std::string error;
    try {
      while (TakeMail()) {
        if (!loop_.idle()) loop_.Step();
        Publish();
      }
    } catch (const std::exception& failure) {
      reason = FinishReason::kError;
      error = failure.what();
      if (error.empty()) error = "unknown failure";
    }
    Close(reason, error);
    if (reason == FinishReason::kError && on_failure_) on_failure_(error);
  }

  // Waits for something to do and moves new requests and cancellations into the loop; false when
  // the engine is to stop.
  bool TakeMail() {
    std::vector<Letter> letters;
    std::vector<RequestId> cancels;
    bool cancel_all = false;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] {
        return stop_ || cancel_all_ || !inbox_.empty() || !cancels_.empty() || !loop_.idle();
      });
      if (stop_) return false;
      cancel_all = std::exchange(cancel_all_, false);
      letters.swap(inbox_);
      cancels.swap(cancels_);
    }
    for (Letter& letter : letters) loop_.Add(letter.id, letter.seed, std::move(letter.request));
    for (RequestId id : cancels) loop_.Cancel(id);
    if (cancel_all) loop_.FinishAll(FinishReason::kCancelled, "");
    return true;
  }

  // Makes the loop's figures visible to other threads.
  void Publish() {
    std::lock_guard lock(mutex_);
    stats_ = loop_.stats();
    open_ -= loop_.finished() - finished_;
    finished_ = loop_.finished();
    if (open_ == 0) idle_.notify_all();
    const int64_t queued = Queued();
    queue_.Observe(std::chrono::steady_clock::now(), queued,
                   static_cast<int64_t>(next_id_) - queued);
  }

  // Under the lock: who waits for its turn.
  int64_t Queued() const { return stats_.waiting + std::ssize(inbox_); }

  // Ends every request, those not yet taken in included, and refuses the ones to come.
  void Close(FinishReason reason, const std::string& error) {
    std::vector<Letter> letters;
    {
      std::lock_guard lock(mutex_);
      failure_ = error.substr(0, error.find('\n'));  // the rest is for on_failure
      stop_ = true;
      letters.swap(inbox_);
      cancels_.clear();
    }
    for (Letter& letter : letters) loop_.Add(letter.id, letter.seed, std::move(letter.request));
    loop_.FinishAll(reason, error);
    Publish();
  }

  const bool is_pipelined_;
  const std::unique_ptr<Executor> executor_;
  const std::unique_ptr<Decoder> decoder_;
  StepLoop loop_;         // of the engine's thread
  int64_t finished_ = 0;  // of the engine's thread: loop_.finished() at the last Publish
  const std::function<void(const std::string&)> on_failure_;
  const std::chrono::seconds max_queue_;
  const int64_t max_open_;
  std::vector<PageGroup> groups_;  // const once constructed
  RequestLimits limits_;           // const once constructed

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::vector<Letter> inbox_;
  std::vector<RequestId> cancels_;
  RequestId next_id_ = 1;
  int64_t open_ = 0;  // requests without their last event
  bool draining_ = false;
  bool cancel_all_ = false;  // once: ends all that was taken in
  bool stop_ = false;
  std::string failure_;  // why the thread failed; empty while healthy
  EngineStats stats_;
  QueueEstimate queue_;
  std::mt19937_64 seeds_;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace

std::unique_ptr<Engine> CreateEngine(const EngineConfig& config, std::unique_ptr<Executor> executor,
                                     std::unique_ptr<Decoder> decoder) {
  return std::make_unique<ThreadedEngine>(config, std::move(executor), std::move(decoder));
}

}  // namespace rose
