#include "server/worker_pool.h"

#include <cstdio>
#include <exception>
#include <utility>

namespace rose {

WorkerPool::WorkerPool(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

WorkerPool::~WorkerPool() {
  Stop();
}

void WorkerPool::Post(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  if (stopped_) return;
  tasks_.push_back(std::move(task));
  changed_.notify_one();
}

void WorkerPool::Stop() {
  std::deque<std::function<void()>> dropped;  // released without the lock: it may be the last owner
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    dropped.swap(tasks_);
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void WorkerPool::Run() {
  while (true) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopped_ || !tasks_.empty(); });
      if (stopped_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    try {
      task();
    } catch (const std::exception& failure) {
      // Ours. What the task held is released, which ends its request with 500.
      std::fprintf(stderr, "rose: a request failed: %s\n", failure.what());
    }
  }
}

}  // namespace rose
