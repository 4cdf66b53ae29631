#include "base/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace rose {

void ParallelFor(int threads, int64_t count, const std::function<void(int64_t)>& task) {
  std::atomic<int64_t> next{0};
  std::mutex mutex;  // guards failure
  std::exception_ptr failure;
  const auto work = [&] {
    try {
      for (int64_t i = next++; i < count; i = next++) task(i);
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  const int64_t helpers = std::min<int64_t>(threads, count) - 1;
  {
    std::vector<std::jthread> others;
    for (int64_t i = 0; i < helpers; ++i) others.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace rose
