#include "cache/divide_memory.h"

#include <gtest/gtest.h>

#include "cache/kv_pages.h"

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

TEST(DivideHostPages, AQuarterIsForSlidingGroups) {
  const std::vector<int64_t> pages = DivideHostPages(kGroups, 100 * kPageBytes);
  EXPECT_EQ(pages, (std::vector<int64_t>{25, 75}));
  const std::vector<GroupCost> unlike = {{.window = 128, .page_bytes = 10},
                                         {.window = 0, .page_bytes = 30},
                                         {.window = 0, .page_bytes = 20}};
  EXPECT_EQ(DivideHostPages(unlike, 1000), (std::vector<int64_t>{25, 15, 15}));
  for (const int64_t window : {0, 128}) {
    const std::vector<GroupCost> one = {{.window = window, .page_bytes = 10}};
    EXPECT_EQ(DivideHostPages(one, 105), (std::vector<int64_t>{10}));
  }
  EXPECT_EQ(DivideHostPages(kGroups, 0), (std::vector<int64_t>{0, 0}));
}

// Must: what gpt-oss takes of the cache, in bf16 (8 KV heads of 64): 2,048 bytes a layer and token,
// in half of the layers for all tokens and in the others for a window of 128.
TEST(PeakBytes, GptOssTakesWhatItsLayersReach) {
  struct Size {
    int64_t layers, per_token, windows;  // of a kind; bytes
  };
  for (const Size& size : {Size{12, 24'576, 3'145'728}, Size{18, 36'864, 4'718'592}}) {
    const int64_t page_bytes = size.layers * 2 * 64 * 8 * 64 * 2;
    const std::vector<GroupCost> costs = {{.window = 128, .page_bytes = page_bytes},
                                          {.window = 0, .page_bytes = page_bytes}};
    for (const int64_t tokens : {1024, 8192, 131'072}) {
      SCOPED_TRACE(testing::Message() << size.layers << " layers of a kind, " << tokens);
      constexpr int64_t kChunk = 512;
      KvPages pages({{.window = 128, .pages = 20}, {.window = 0, .pages = 2048}}, 64);
      SeqPages seq = pages.NewSequence();
      int64_t most = 0;
      const auto held = [&] { return (seq.held[0] + seq.held[1]) * page_bytes; };
      for (int64_t start = 0; start < tokens; start += kChunk) {
        pages.Cover(seq, start + kChunk);
        most = std::max(most, held());
        pages.Slide(seq, start + kChunk);
      }
      // At rest, to the byte.
      EXPECT_EQ(held(), tokens * size.per_token + size.windows);
      // While the last chunk runs: it, and what its first query reaches of the window.
      EXPECT_EQ(most, tokens * size.per_token + size.windows + kChunk * size.per_token);
      // One that begins inside a page touches one more.
      EXPECT_EQ(PeakBytes(costs, 64, tokens, kChunk), most + page_bytes);
      // A step that decodes reaches into a third page of the window.
      EXPECT_EQ(PeakBytes(costs, 64, tokens, 1),
                tokens * size.per_token + size.windows + 64 * size.per_token);
    }
  }
}

}  // namespace
}  // namespace rose
