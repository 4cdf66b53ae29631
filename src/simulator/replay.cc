#include "simulator/replay.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace rose {
namespace {

using Clock = std::chrono::steady_clock;

class Replayer {
 public:
  Replayer(Engine& engine, const std::vector<TraceRequest>& trace)
      : engine_(engine), trace_(trace), records_(trace.size()) {}

  std::vector<LoadRecord> Run(const std::function<void(int64_t)>& on_progress) {
    const int64_t all = std::ssize(trace_);
    std::vector<Request> requests;  // made before: a client's work is no part of it
    for (int64_t i = 0; i < all; ++i) requests.push_back(RequestOf(i));
    start_ = Clock::now();
    for (int64_t i = 0; i < all; ++i) {
      std::this_thread::sleep_until(start_ + std::chrono::duration_cast<Clock::duration>(
                                                 std::chrono::duration<double>(trace_[i].at_s)));
      Submit(i, std::move(requests[i]));
    }
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, std::chrono::milliseconds(100), [&] { return done_ == all; })) {
      on_progress(done_);
    }
    on_progress(done_);
    return std::move(records_);
  }

 private:
  Request RequestOf(int64_t index) {
    Request request;
    request.prompt = PromptOf(trace_[index], index, engine_.vocab());
    request.max_tokens = trace_[index].output_tokens;
    request.on_event = [this, index](const TokenEvent& event) { Take(index, event); };
    return request;
  }

  double Now() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  void Submit(int64_t index, Request request) {
    {
      const std::lock_guard lock(mutex_);
      LoadRecord& record = records_[index];
      record.due_s = trace_[index].at_s;
      record.sent_s = Now();
      record.prompt_tokens = std::ssize(request.prompt);
    }
    const Result<RequestId> id = engine_.Submit(std::move(request));
    if (id.ok()) return;
    const std::lock_guard lock(mutex_);
    records_[index].error = id.status().message();
    records_[index].done_s = Now();
    ++done_;
  }

  // On the engine's thread.
  void Take(int64_t index, const TokenEvent& event) {
    const std::lock_guard lock(mutex_);
    LoadRecord& record = records_[index];
    if (!event.tokens.empty()) record.token_s.push_back(Now());
    record.completion_tokens += std::ssize(event.tokens);
    if (event.finish == FinishReason::kNone) return;
    record.done_s = Now();
    if (event.finish != FinishReason::kLength) record.error = StrCat("ended early ", event.error);
    ++done_;
    changed_.notify_one();
  }

  Engine& engine_;
  const std::vector<TraceRequest>& trace_;
  Clock::time_point start_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<LoadRecord> records_;
  int64_t done_ = 0;
};

}  // namespace

std::vector<LoadRecord> Replay(Engine& engine, const std::vector<TraceRequest>& trace,
                               const std::function<void(int64_t)>& on_progress) {
  return Replayer(engine, trace).Run(on_progress);
}

}  // namespace rose
