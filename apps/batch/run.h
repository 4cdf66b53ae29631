// Answers the requests of a batch with an engine of this process, as many at a time as it runs.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "api/answer.h"
#include "api/context.h"
#include "batch/files.h"
#include "engine/engine.h"

namespace rose {

struct BatchCounts {
  int64_t answered = 0;  // with status 200
  int64_t failed = 0;    // with any other, or not at all
};

class BatchRun {
 public:
  // All outlive the run. `in_flight`: requests that the engine has at a time.
  BatchRun(Engine& engine, const ApiContext& context, BatchInput& input, BatchOutput& output,
           int64_t in_flight)
      : engine_(engine), context_(context), input_(input), output_(output), limit_(in_flight) {}

  // Until every request has its answer, or those that run once `stop` is set. kInternal if the
  // engine fails, kIo if the answers cannot be written; what was written stays good. `progress` is
  // told how many are done, of all.
  Status Run(const std::atomic<bool>& stop,
             const std::function<void(int64_t done, int64_t total)>& progress);

  // After Run.
  const BatchCounts& counts() const { return counts_; }

 private:
  // A request under way.
  struct Job {
    std::string custom_id, request_id;
    std::string (*error_body)(const ApiError&) = nullptr;
    std::unique_ptr<Answer> answer;
    std::vector<RequestId> ids;
    int64_t running = 0;  // engine requests whose last event has not come
    bool written = false;
  };
  struct News {
    std::shared_ptr<Job> job;
    int64_t index = 0;
    TokenEvent event;
  };
  // Filled by the engine's thread, which may outlive the run.
  struct Inbox {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<News> news;
  };

  Status Start(BatchRequest request);
  Status Submit(PreparedCall call, const std::shared_ptr<Job>& job);
  Status Handle(const News& news);
  Status Finish(Job& job);
  Status WriteResponse(Job& job, int status, const std::string& body);
  Status WriteError(const std::string& custom_id, const char* code, const std::string& message);
  std::vector<News> Wait();
  void Cancel(const Job& job);

  Engine& engine_;
  const ApiContext& context_;
  BatchInput& input_;
  BatchOutput& output_;
  const int64_t limit_;
  const std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  int64_t running_ = 0;                            // engine requests whose last event has not come
  std::unordered_set<std::shared_ptr<Job>> jobs_;  // not written yet
  BatchCounts counts_;
};

}  // namespace rose
