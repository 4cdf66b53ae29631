#include "engine/pipelined_executor.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "base/check.h"

namespace rose {
namespace {

class PipelinedExecutor : public Executor {
 public:
  explicit PipelinedExecutor(std::unique_ptr<Executor> executor)
      : executor_(std::move(executor)), thread_([this] { Run(); }) {}

  ~PipelinedExecutor() override {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  const ExecutorInfo& info() const override { return executor_->info(); }

  void Submit(const StepPlan& plan) override {
    std::lock_guard lock(mutex_);
    ROSE_CHECK_LT(in_flight_, 2);
    ++in_flight_;
    plans_.push_back(&plan);
    changed_.notify_all();
  }

  StepResult Wait() override {
    std::unique_lock lock(mutex_);
    ROSE_CHECK_GT(in_flight_, 0);
    changed_.wait(lock, [this] { return !results_.empty() || failure_ != nullptr; });
    --in_flight_;
    if (results_.empty()) std::rethrow_exception(failure_);
    StepResult result = std::move(results_.front());
    results_.pop_front();
    return result;
  }

 private:
  // The thread's main. After a failure no plan is touched any more.
  void Run() {
    for (;;) {
      const StepPlan* plan = nullptr;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return stop_ || !plans_.empty(); });
        if (stop_) return;
        plan = plans_.front();
        plans_.pop_front();
      }
      try {
        StepResult result = RunStep(*plan);
        std::lock_guard lock(mutex_);
        results_.push_back(std::move(result));
      } catch (...) {
        std::lock_guard lock(mutex_);
        failure_ = std::current_exception();
        changed_.notify_all();
        return;
      }
      changed_.notify_all();
    }
  }

  StepResult RunStep(const StepPlan& plan) {
    for (const SeqPlan& seq : plan.seqs) {
      if (seq.fed_from >= 0) *seq.fed_token = draws_[seq.fed_from];
    }
    executor_->Submit(plan);
    StepResult result = executor_->Wait();
    draws_.clear();
    for (const SeqResult& seq : result.seqs) {
      draws_.push_back(seq.sampled.empty() ? 0 : seq.sampled.back().id);
    }
    return result;
  }

  const std::unique_ptr<Executor> executor_;
  std::vector<int32_t> draws_;  // of the thread: the last draw of each sequence of the step before

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<const StepPlan*> plans_;  // submitted, not begun
  std::deque<StepResult> results_;
  int64_t in_flight_ = 0;
  std::exception_ptr failure_;
  bool stop_ = false;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace

std::unique_ptr<Executor> CreatePipelinedExecutor(std::unique_ptr<Executor> executor) {
  return std::make_unique<PipelinedExecutor>(std::move(executor));
}

}  // namespace rose
