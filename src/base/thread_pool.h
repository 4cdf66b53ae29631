// ThreadPool: cuts one loop at a time over a fixed set of threads. A decode step has some fifty
// short loops, so starting one must cost about a microsecond: idle threads look for work for a
// moment before they sleep, and the caller never waits for a thread that has not woken up.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace rose {

class ThreadPool {
 public:
  // `threads` >= 1 counts the caller of Run, so threads - 1 are started.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(item, thread) for every item in [0, items), in any order, with thread in
  // [0, threads()), and returns when all are done. The caller works too, as thread 0. One Run at a
  // time. The first exception of a body is rethrown here, after all items were taken.
  template <typename Body>
  void Run(int64_t items, Body&& body) {
    if (items <= 0) return;
    if (items == 1 || workers_.empty()) {
      for (int64_t item = 0; item < items; ++item) body(item, 0);
      return;
    }
    using Plain = std::remove_reference_t<Body>;
    Start(
        items,
        [](void* context, int64_t item, int thread) {
          (*static_cast<Plain*>(context))(item, thread);
        },
        const_cast<void*>(static_cast<const void*>(&body)));
  }

 private:
  using Call = void (*)(void* context, int64_t item, int thread);

  void Start(int64_t items, Call call, void* context);
  void WorkerLoop(int thread);
  // Takes and runs items until none is left.
  void TakeItems(int thread);

  // Items of the current loop that nobody has taken. Taking one, by compare-exchange, keeps the
  // loop open until it is counted in done_, so call_, context_ and items_ stay as they are. The
  // upper half counts loops, so that a late thread cannot take from a loop that it has not seen.
  std::atomic<uint64_t> tickets_{0};
  std::atomic<int64_t> done_{0};
  std::atomic<int64_t> items_{0};
  std::atomic<Call> call_{nullptr};
  std::atomic<void*> context_{nullptr};

  std::atomic<int> sleepers_{0};
  std::atomic<int> wake_{0};  // sleepers wait for a change
  std::atomic<bool> stop_{false};

  std::mutex error_mutex_;  // guards error_
  std::exception_ptr error_;
  std::vector<std::thread> workers_;
};

}  // namespace rose
