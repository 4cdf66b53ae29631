#include "engine/queue_estimate.h"

#include <gtest/gtest.h>

namespace rose {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(QueueEstimate, IsTheRateAtWhichTheQueueMoves) {
  QueueEstimate estimate;
  QueueEstimate::TimePoint now{};
  EXPECT_EQ(estimate.Wait(100).count(), 0) << "nothing is known";
  int64_t left = 0;
  for (int turn = 0; turn < 400; ++turn, now += milliseconds(50)) {
    if (turn % 2 == 0) ++left;  // ten a second
    estimate.Observe(now, /*waiting=*/20, left);
  }
  EXPECT_NEAR(estimate.Wait(20).count(), 2, 0.1);
  EXPECT_NEAR(estimate.Wait(1).count(), 0.1, 0.01);
  // Twice as fast from now on.
  for (int turn = 0; turn < 600; ++turn, now += milliseconds(50)) {
    estimate.Observe(now, /*waiting=*/20, ++left);
  }
  EXPECT_NEAR(estimate.Wait(20).count(), 1, 0.1);
}

// An hour without requests is no slow queue.
TEST(QueueEstimate, TimeWithoutAQueueTellsNothing) {
  QueueEstimate estimate;
  QueueEstimate::TimePoint now{};
  for (int turn = 0; turn < 100; ++turn, now += milliseconds(100)) {
    estimate.Observe(now, /*waiting=*/turn < 99 ? 5 : 0, turn);
  }
  const double before = estimate.Wait(5).count();
  EXPECT_NEAR(before, 0.5, 0.05);
  now += seconds(3600);
  estimate.Observe(now, /*waiting=*/5, 100);
  EXPECT_EQ(estimate.Wait(5).count(), before);
}

}  // namespace
}  // namespace rose
