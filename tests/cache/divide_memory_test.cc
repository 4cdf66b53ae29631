#include "cache/divide_memory.h"

#include <gtest/gtest.h>

namespace rose {
namespace {

// gpt-oss-20b in bf16: 12 layers of each kind, 8 KV heads of 64.
constexpr int64_t kPageBytes = 12 * 2 * 64 * 8 * 64 * 2;
const std::vector<GroupCost> kGroups = {{.window = 128, .page_bytes = kPageBytes},
                                        {.window = 0, .page_bytes = kPageBytes}};
constexpr CacheDemand kDemand = {
    .page_size = 64, .max_running = 256, .max_step_tokens = 512, .max_context = 131072};

TEST(DividePages, SlidingGroupsGetWhatTheyCanUseAndFullGroupsTheRest) {
  const int64_t bytes = int64_t{100} << 30;
  const std::vector<int64_t> pages = DividePages(kGroups, kDemand, bytes);
  EXPECT_EQ(pages[0], 256 * 4 + 8);
  const int64_t used = (pages[0] + pages[1]) * kPageBytes;
  EXPECT_LE(used, bytes);
  EXPECT_GT(used, bytes - 2 * kPageBytes);
  CacheDemand keeping = kDemand;
  keeping.kept = 512;
  EXPECT_EQ(DividePages(kGroups, keeping, bytes)[0], 768 * 4 + 8);
}

TEST(DividePages, LittleMemoryIsHalved) {
  const std::vector<int64_t> pages = DividePages(kGroups, kDemand, 40 * kPageBytes);
  EXPECT_EQ(pages, (std::vector<int64_t>{20, 20}));
  EXPECT_EQ(DividePages(kGroups, kDemand, 0), (std::vector<int64_t>{0, 0}));
}

TEST(DividePages, NobodyGetsMoreThanIsUseful) {
  const CacheDemand one = {
      .page_size = 64, .max_running = 1, .max_step_tokens = 64, .max_context = 100};
  EXPECT_EQ(DividePages(kGroups, one, int64_t{100} << 30), (std::vector<int64_t>{3, 2}));
  const std::vector<GroupCost> sliding = {{.window = 128, .page_bytes = 10}};
  EXPECT_EQ(DividePages(sliding, kDemand, 100), (std::vector<int64_t>{10}));
}

}  // namespace
}  // namespace rose
