// When a device counts as one that hangs, and what is said then. Nothing here needs a GPU.
#include "device/hang_watch.h"

#include <gtest/gtest.h>

#include <future>

namespace rose {
namespace {

constexpr DevicePulse kWaiting{.is_called = true, .calls = 7, .mark = 3};

// How many looks at one pulse until it counts as a stall.
int LooksUntilStall(StallCount& stall, const DevicePulse& pulse) {
  int looks = 1;
  while (looks < 1000 && !stall.Look(pulse)) ++looks;
  return looks;
}

TEST(StallCount, IsWhatDoesNotChangeForSoManyLooks) {
  StallCount stall(5);
  EXPECT_EQ(LooksUntilStall(stall, kWaiting), 6);  // the first, and five that find nothing new
}

TEST(StallCount, AMarkBeginsAnew) {
  StallCount stall(5);
  DevicePulse pulse = kWaiting;
  // A prompt of many chunks in one wait, whose norms take nearly as long as may be.
  for (int i = 0; i < 100; ++i) {
    ++pulse.mark;
    for (int look = 0; look < 5; ++look) ASSERT_FALSE(stall.Look(pulse)) << i << ", " << look;
  }
  EXPECT_TRUE(stall.Look(pulse));
}

TEST(StallCount, AnotherCallBeginsAnew) {
  StallCount stall(5);
  DevicePulse pulse = kWaiting;
  for (int i = 0; i < 100; ++i) {
    ++pulse.calls;
    for (int look = 0; look < 5; ++look) ASSERT_FALSE(stall.Look(pulse)) << i << ", " << look;
  }
  EXPECT_TRUE(stall.Look(pulse));
}

TEST(StallCount, WhoDoesNotWaitDoesNotHang) {
  StallCount stall(5);
  const DevicePulse idle{.is_called = false, .calls = 7, .mark = 3};
  for (int look = 0; look < 100; ++look) ASSERT_FALSE(stall.Look(idle));
  EXPECT_EQ(LooksUntilStall(stall, kWaiting), 6);
}

TEST(DevicePulse, IsThatOfTheTrail) {
  volatile int32_t progress = 0;
  OpTrail trail(nullptr, {.progress = &progress});
  EXPECT_EQ(trail.Pulse(), (DevicePulse{.is_called = false, .calls = 0, .mark = 0}));
  {
    const OpScope op(trail, "gemm", {{"tokens", 2}});
    EXPECT_EQ(trail.Pulse(), (DevicePulse{.is_called = true, .calls = 1, .mark = 0}));
    const DeviceCall wait(trail);
    EXPECT_EQ(trail.Pulse(), (DevicePulse{.is_called = true, .calls = 2, .mark = 0}));
  }
  progress = 4;
  EXPECT_EQ(trail.Pulse(), (DevicePulse{.is_called = false, .calls = 2, .mark = 4}));
}

TEST(HangWatch, ReportsTheOpsThatNobodyHasWaitedFor) {
  OpTrail trail(nullptr, {});
  {
    const OpScope op(trail, "gemm", {{"tokens", 2}, {"rows", 96}});
  }
  trail.Finished(trail.position());
  for (const char* name : {"route", "logits"}) {
    const OpScope op(trail, name, {{"tokens", 2}});
  }
  const DeviceCall wait(trail);
  std::promise<std::string> reported;
  const HangWatch watch(trail, std::chrono::milliseconds(20),
                        [&](const std::string& report) { reported.set_value(report); });
  EXPECT_EQ(reported.get_future().get(),
            "the GPU hangs: no sign of progress for 0.02 s (ROSE_HANG_SECONDS sets how long it may "
            "take)"
            "\nIt hangs in one of these ops (ROSE_SYNC_OPS=1 waits for each and names the one):"
            "\n  route [tokens=2]"
            "\n  logits [tokens=2]");
}

TEST(HangWatch, NamesTheOnlyOpOnTheSameLine) {
  OpTrail trail(nullptr, {});
  {
    const OpScope op(trail, "gemm", {{"tokens", 2}});
  }
  EXPECT_EQ(trail.DescribeHang(), "; it hangs in gemm [tokens=2]");
}

TEST(HangWatch, EndsWhileItLooks) {
  OpTrail trail(nullptr, {});
  const DeviceCall wait(trail);
  const HangWatch watch(trail, std::chrono::hours(1), [](const std::string&) { FAIL(); });
}

}  // namespace
}  // namespace rose
