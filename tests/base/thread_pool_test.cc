#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>

namespace rose {
namespace {

TEST(ThreadPoolTest, EveryItemRunsOnce) {
  for (int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int64_t items : {0, 1, 2, 3, 100, 1000}) {
      for (int repeat = 0; repeat < 50; ++repeat) {
        std::vector<std::atomic<int>> runs(items);
        std::atomic<bool> bad_thread = false;
        pool.Run(items, [&](int64_t item, int thread) {
          ++runs[item];
          if (thread < 0 || thread >= threads) bad_thread = true;
        });
        EXPECT_FALSE(bad_thread);
        for (const auto& count : runs) ASSERT_EQ(count, 1);
      }
    }
  }
}

TEST(ThreadPoolTest, ThreadsThatSleepTakePartAgain) {
  ThreadPool pool(3);
  for (int repeat = 0; repeat < 5; ++repeat) {
    // Longer than an idle thread looks for work.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    // Three items that each wait for all three: only different threads can run them.
    std::atomic<int> arrived = 0;
    pool.Run(3, [&](int64_t, int) {
      ++arrived;
      while (arrived < 3) std::this_thread::yield();
    });
    EXPECT_EQ(arrived, 3);
  }
}

TEST(ThreadPoolTest, AnExceptionReachesTheCallerAndThePoolGoesOn) {
  for (int threads : {1, 3}) {
    ThreadPool pool(threads);
    for (int repeat = 0; repeat < 20; ++repeat) {
      EXPECT_THROW(pool.Run(10,
                            [](int64_t item, int) {
                              if (item % 3 == 2) throw std::runtime_error("item");
                            }),
                   std::runtime_error);
      std::atomic<int> done = 0;
      pool.Run(10, [&](int64_t, int) { ++done; });
      EXPECT_EQ(done, 10);
    }
  }
}

}  // namespace
}  // namespace rose
