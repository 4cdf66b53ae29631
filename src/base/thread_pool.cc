#include "base/thread_pool.h"

#include <chrono>
#include <utility>

#include "base/check.h"

namespace rose {
namespace {

constexpr uint64_t kItemMask = 0xffffffffu;
// How long an idle thread looks for work before it sleeps. Longer than the gaps between the loops
// of a step and between steps; waking up from sleep costs about 50 us.
constexpr auto kSpinTime = std::chrono::microseconds(100);

// About 20 us.
constexpr int kSpinsBeforeYield = 500;

void Pause() {
  __builtin_ia32_pause();
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  ROSE_CHECK_GE(threads, 1);
  for (int thread = 1; thread < threads; ++thread) {
    workers_.emplace_back([this, thread] { WorkerLoop(thread); });
  }
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  ++wake_;
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Start(int64_t items, Call call, void* context) {
  ROSE_CHECK_LE(items, static_cast<int64_t>(kItemMask));
  call_.store(call, std::memory_order_relaxed);
  context_.store(context, std::memory_order_relaxed);
  items_.store(items, std::memory_order_relaxed);
  done_.store(0, std::memory_order_relaxed);
  const uint64_t loops = tickets_.load(std::memory_order_relaxed) >> 32;
  // Sequentially consistent, as is the sleeper's side: either it sees the items or we see it.
  tickets_.store(((loops + 1) << 32) | static_cast<uint64_t>(items));
  if (sleepers_.load() > 0) {
    ++wake_;
    wake_.notify_all();
  }
  TakeItems(/*thread=*/0);
  // On a busy machine the thread with the last item may not be running: let it.
  for (int spins = 0; done_.load(std::memory_order_acquire) != items; ++spins) {
    if (spins < kSpinsBeforeYield) {
      Pause();
    } else {
      std::this_thread::yield();
    }
  }
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ThreadPool::TakeItems(int thread) {
  uint64_t tickets = tickets_.load(std::memory_order_acquire);
  while ((tickets & kItemMask) != 0) {
    if (!tickets_.compare_exchange_weak(tickets, tickets - 1, std::memory_order_acq_rel,
                                        std::memory_order_acquire)) {
      continue;
    }
    const int64_t left = static_cast<int64_t>(tickets & kItemMask);
    try {
      call_.load(std::memory_order_relaxed)(context_.load(std::memory_order_relaxed),
                                            items_.load(std::memory_order_relaxed) - left, thread);
    } catch (...) {
      // Carried to the caller of Run.
      const std::lock_guard lock(error_mutex_);
      if (!error_) error_ = std::current_exception();
    }
    done_.fetch_add(1, std::memory_order_acq_rel);
    tickets = tickets_.load(std::memory_order_acquire);
  }
}

void ThreadPool::WorkerLoop(int thread) {
  auto spin_until = std::chrono::steady_clock::now() + kSpinTime;
  while (!stop_) {
    if ((tickets_.load(std::memory_order_relaxed) & kItemMask) != 0) {
      TakeItems(thread);
      spin_until = std::chrono::steady_clock::now() + kSpinTime;
      continue;
    }
    if (std::chrono::steady_clock::now() < spin_until) {
      for (int i = 0; i < 8; ++i) Pause();
      continue;
    }
    const int seen = wake_.load();
    ++sleepers_;
    if ((tickets_.load() & kItemMask) == 0 && !stop_) wake_.wait(seen);
    --sleepers_;
    spin_until = std::chrono::steady_clock::now() + kSpinTime;
  }
}

}  // namespace rose
