#include "cache/kv_pages.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "base/check.h"

namespace rose {
namespace {

constexpr int64_t kPage = 64;

TEST(PagePool, CountsAndRefusesMisuse) {
  PagePool pool(3);
  const int32_t a = pool.Take(), b = pool.Take(), c = pool.Take();
  EXPECT_EQ((std::set<int32_t>{a, b, c}), (std::set<int32_t>{0, 1, 2}));
  EXPECT_EQ(pool.free(), 0);
  EXPECT_THROW(pool.Take(), CheckFailure);
  pool.Give(b);
  EXPECT_THROW(pool.Give(b), CheckFailure);
  EXPECT_THROW(pool.Give(3), CheckFailure);
  EXPECT_THROW(pool.Give(-1), CheckFailure);
  EXPECT_EQ(pool.Take(), b);
}

TEST(KvPages, SlidingGroupHoldsWhatTheNextQueryReaches) {
  KvPages pages({{.window = 128, .pages = 8}, {.window = 0, .pages = 8}}, kPage);
  SeqPages seq = pages.NewSequence();
  for (int64_t position = 0; position < 500; ++position) {
    pages.Cover(seq, position + 1);
    for (int64_t key = std::max<int64_t>(0, position - 127); key <= position; ++key) {
      ASSERT_NE(seq.tables[0][key / kPage], kNoPage) << "query " << position << " key " << key;
    }
    ASSERT_LE(seq.held[0], 3) << position;
    ASSERT_EQ(seq.held[1], position / kPage + 1);
    pages.Slide(seq, position + 1);
  }
  // The query at 191 is the first that does not reach key 63.
  SeqPages other = pages.NewSequence();
  pages.Release(seq);
  pages.Cover(other, 192);
  pages.Slide(other, 190);
  EXPECT_EQ(other.held[0], 3);
  pages.Slide(other, 191);
  EXPECT_EQ(other.held[0], 2);
  EXPECT_EQ(other.tables[0][0], kNoPage);
  pages.Release(other);
  EXPECT_EQ(pages.used_pages(), 0);
}

TEST(KvPages, PeakPagesIsWhatChunkedRunsHold) {
  for (int64_t window : {0, 1, 2, 64, 65, 66, 128}) {
    for (int64_t chunk : {1, 2, 63, 64, 65, 200}) {
      for (int64_t tokens : {1, 64, 65, 129, 700}) {
        const PageGroup group{.window = window, .pages = 100};
        int64_t most = 0;
        // Chunks of every size up to `chunk`, from every start.
        for (int64_t start = 0; start < tokens; ++start) {
          KvPages pages({group}, kPage);
          SeqPages seq = pages.NewSequence();
          pages.Cover(seq, start);
          pages.Slide(seq, start);
          pages.Cover(seq, std::min(tokens, start + chunk));
          most = std::max(most, seq.held[0]);
        }
        const int64_t peak = PeakPages(group, kPage, tokens, chunk);
        EXPECT_LE(most, peak) << window << " " << chunk << " " << tokens;
        if (tokens == 700) {
          EXPECT_EQ(most, peak) << window << " " << chunk;
        }
      }
    }
  }
}

// Must: at most the window, one chunk and one page, whatever the chunks. With the prefix cache, up
// to a page more between two chunks, for windows that are no whole number of pages.
TEST(KvPages, SlidingGroupsHoldAWindowAChunkAndAPage) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    std::mt19937_64 random(seed);
    const bool prefix_cache = seed % 2 == 0;
    const int64_t window = seed % 3 == 0 ? 1 + random() % 300 : 128;
    const int64_t largest = 1 + random() % 400;
    SCOPED_TRACE(testing::Message() << "seed " << seed << " window " << window);
    const std::vector<PageGroup> groups = {{.window = window, .pages = 400},
                                           {.window = 0, .pages = 400}};
    KvPages pages(groups, kPage, prefix_cache);
    SeqPages seq = pages.NewSequence();
    std::vector<int32_t> tokens;
    while (tokens.size() < 8000) {
      const auto start = std::ssize(tokens);
      const int64_t chunk = 1 + random() % largest;
      for (int64_t i = 0; i < chunk; ++i) tokens.push_back(static_cast<int32_t>(random() % 9));
      pages.Cover(seq, start + chunk);
      // Positions from its first page on to the end of the chunk.
      const auto positions = [&] {
        return std::ssize(tokens) - (seq.covered - seq.held[0]) * kPage;
      };
      const int64_t slack = window % kPage == 0 || !prefix_cache ? kPage : 2 * kPage;
      ASSERT_LE(positions(), window + chunk + slack) << start;
      ASSERT_LE(seq.held[0], PeakPages(groups[0], kPage, 10'000, largest)) << start;
      if (prefix_cache) pages.Publish(seq, "", tokens);
      pages.Slide(seq, start + chunk);
      ASSERT_LE(positions(), window + slack) << start;
    }
    pages.Release(seq);
    ASSERT_EQ(pages.used_pages(), 0);
  }
}

// Random admit, extend, slide and release over two pools; the counts add up after every action, and
// no page has two owners.
TEST(Case074, PagesOfBothPoolsAddUp) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    std::mt19937_64 random(seed);
    const std::vector<PageGroup> groups = {{.window = 128, .pages = 20},
                                           {.window = 0, .pages = 40}};
    KvPages pages(groups, kPage);
    std::vector<SeqPages> seqs;
    std::vector<int64_t> length;
    for (int action = 0; action < 400; ++action) {
      const size_t pick = seqs.empty() ? 0 : random() % seqs.size();
      switch (random() % 4) {
        case 0:
          seqs.push_back(pages.NewSequence());
          length.push_back(0);
          break;
        case 1:
        case 2:
          if (!seqs.empty()) {
            const int64_t most =
                (seqs[pick].covered + std::min(pages.available(0), pages.available(1))) * kPage;
            const int64_t end = std::min<int64_t>(length[pick] + 1 + random() % 200, most);
            pages.Cover(seqs[pick], end);
            length[pick] = std::max(length[pick], end);
            pages.Slide(seqs[pick], length[pick]);
          }
          break;
        case 3:
          if (!seqs.empty()) {
            pages.Release(seqs[pick]);
            seqs.erase(seqs.begin() + pick);
            length.erase(length.begin() + pick);
          }
          break;
      }
      for (size_t g = 0; g < groups.size(); ++g) {
        std::set<int32_t> owned;
        int64_t held = 0;
        for (const SeqPages& seq : seqs) {
          held += seq.held[g];
          for (int32_t page : seq.tables[g]) {
            if (page != kNoPage) {
              ASSERT_TRUE(owned.insert(page).second) << "seed " << seed << " page " << page;
            }
          }
        }
        ASSERT_EQ(static_cast<int64_t>(owned.size()), held) << "seed " << seed;
        ASSERT_EQ(held + pages.available(g), groups[g].pages) << "seed " << seed;
      }
    }
    for (SeqPages& seq : seqs) pages.Release(seq);
    ASSERT_EQ(pages.used_pages(), 0) << "seed " << seed;
  }
}

}  // namespace
}  // namespace rose
