// A few threads for work that would hold the sockets up: reading and rendering long prompts.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace rose {

class WorkerPool {
 public:
  explicit WorkerPool(int threads);
  ~WorkerPool();

  // Runs `task` on one of the threads; tasks start in the order of the calls. After Stop it is
  // dropped.
  void Post(std::function<void()> task);
  // Drops what has not begun and joins the threads.
  void Stop();

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace rose
