#include "models/gpu_budget.h"

#include <gtest/gtest.h>

#include "expect_says.h"

namespace rose {
namespace {

constexpr int64_t kGib = int64_t{1} << 30;

TEST(GpuBudget, TheCacheGetsWhatIsLeftButOneGib) {
  EXPECT_EQ(GpuKvBytes({.used = 14 * kGib, .free = 100 * kGib}).value(), 99 * kGib);
  EXPECT_EQ(GpuKvBytes({.used = 14 * kGib, .free = 100 * kGib, .allowed = 80 * kGib}).value(),
            65 * kGib);
  EXPECT_EQ(GpuKvBytes({.used = 14 * kGib, .free = 20 * kGib, .allowed = 80 * kGib}).value(),
            19 * kGib);
}

TEST(GpuBudget, WhatIsAskedIsGivenWithinTheBound) {
  const auto asks = [](int64_t allowed, int64_t kv) {
    return GpuKvBytes({.used = 14 * kGib, .free = 100 * kGib, .allowed = allowed, .kv_asked = kv});
  };
  EXPECT_EQ(asks(0, 500 * kGib).value(), 500 * kGib);  // the allocation says what is missing
  EXPECT_EQ(asks(20 * kGib, 5 * kGib).value(), 5 * kGib);
  EXPECT_EQ(asks(1000 * kGib, 500 * kGib).value(), 500 * kGib);
  const Status refused = asks(20 * kGib, 5 * kGib + 1).status();
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  EXPECT_SAYS(refused.message(), "of 21.47 GB that --gpu-memory allows, 5.37 GB is left");
  EXPECT_SAYS(refused.message(), "--kv-memory asks for 5.37 GB");
  EXPECT_SAYS(refused.message(), "raise --gpu-memory, or lower --kv-memory");
}

TEST(GpuBudget, SaysWhatIsThereAndWhatToChange) {
  const Status bound =
      GpuKvBytes({.used = 18 * kGib, .free = 100 * kGib, .allowed = 5 * kGib}).status();
  EXPECT_SAYS(bound.message(), "take 19.33 GB of the GPU's memory");
  EXPECT_SAYS(bound.message(), "of 5.37 GB that --gpu-memory allows, nothing is left");
  EXPECT_SAYS(bound.message(), "servers that share a GPU one after the other");
  EXPECT_SAYS(bound.message(), "raise --gpu-memory, or lower --max-step-tokens or --max-running");
  const Status full = GpuKvBytes({.used = kGib, .free = kGib / 2}).status();
  EXPECT_SAYS(full.message(), "of 0.54 GB that are free now, nothing is left");
  EXPECT_SAYS(full.message(), "end other programs on the GPU");
  EXPECT_EQ(full.message().find("--gpu-memory"), std::string::npos);
}

}  // namespace
}  // namespace rose
