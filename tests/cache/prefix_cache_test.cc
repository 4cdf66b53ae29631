// KvPages with the prefix cache, on one tier; see page_ledger.h.
#include <gtest/gtest.h>

#include <random>

#include "cache/page_ledger.h"

namespace rose {
namespace {

constexpr int64_t kPage = PageLedger::kPage;

// Tokens that B shares with A, and what of them B need not compute.
int64_t Reused(PageLedger& ledger, const Tokens& a, int64_t shared, const std::string& salt = "") {
  Tokens b(a.begin(), a.begin() + shared);
  b.insert(b.end(), 100, 7);
  const auto match = ledger.kv.Find(salt, std::span(b).first(b.size() - 1));
  return static_cast<int64_t>(match.path.size()) * kPage + match.part_tokens;
}

TEST(Case072, ReuseIsExactWhereEveryGroupHasItsPages) {
  std::mt19937_64 random(1);
  PageLedger ledger({{.window = 128, .pages = 100}, {.window = 0, .pages = 100}});
  PageLedger::Seq a{.tokens = RandomTokens(random, 900)};
  a.tokens[599] = 5;  // so that the answer parts from what follows in the test
  ASSERT_TRUE(ledger.Start(a));
  ledger.Compute(a, 600);
  for (int64_t end = 610; end <= 900; end += 10) ledger.Compute(a, end);
  // 900 tokens are 14 pages; the 15th is not whole and is not published.
  for (const int64_t shared : {0, 1, 63, 64, 65, 127, 128, 129, 500, 600, 895, 896})
    EXPECT_EQ(Reused(ledger, a.tokens, shared), shared) << shared;
  EXPECT_EQ(Reused(ledger, a.tokens, 900), 896);
  ledger.kv.Release(a.pages);
  EXPECT_EQ(ledger.kv.used_pages(), 0);
  for (const int64_t shared : {1, 129, 896}) EXPECT_EQ(Reused(ledger, a.tokens, shared), shared);
}

TEST(Case072, AWindowThatIsGoneCutsTheReuse) {
  std::mt19937_64 random(2);
  // Room for the three pages that a sequence needs, and for those at the mark and a checkpoint.
  PageLedger ledger({{.window = 128, .pages = 9}, {.window = 0, .pages = 100}});
  PageLedger::Seq a{.tokens = RandomTokens(random, 1600)};
  a.pages = ledger.kv.NewSequence();
  a.pages.marks[0] = 600;  // the prompt's end
  for (int64_t end = 1; end <= 1600; ++end) ledger.Compute(a, end);
  ledger.kv.Release(a.pages);
  EXPECT_EQ(Reused(ledger, a.tokens, 600), 600);    // the mark
  EXPECT_EQ(Reused(ledger, a.tokens, 500), 0);      // its window is gone
  EXPECT_EQ(Reused(ledger, a.tokens, 650), 640);    // still behind the mark's pages
  EXPECT_EQ(Reused(ledger, a.tokens, 1600), 1600);  // the end
}

TEST(Case104, SaltsShareNothing) {
  std::mt19937_64 random(3);
  PageLedger ledger({{.window = 0, .pages = 100}});
  const Tokens tokens = RandomTokens(random, 200);
  for (const char* salt : {"a", "bc", ""}) {
    PageLedger::Seq seq{.tokens = tokens, .salt = salt};
    ASSERT_TRUE(ledger.Start(seq));
    EXPECT_EQ(seq.computed, 0) << salt;
    ledger.Compute(seq, 200);
    ledger.kv.Release(seq.pages);
  }
  EXPECT_EQ(Reused(ledger, tokens, 150, "a"), 150);
  for (const char* salt : {"ab", "b", "c", "abc"}) EXPECT_EQ(Reused(ledger, tokens, 150, salt), 0);
}

// Random sequences that begin like earlier ones, over pools that are too small to keep all.
TEST(Case074, PrefixCacheNeverHoldsAWrongPage) {
  const std::vector<std::vector<PageGroup>> kinds = {
      {{.window = 128, .pages = 16}, {.window = 0, .pages = 40}},
      {{.window = 0, .pages = 30}},
      {{.window = 70, .pages = 14}},
      {{.window = 0, .pages = 30}, {.window = 1, .pages = 8}, {.window = 0, .pages = 33}}};
  int64_t reused = 0;
  for (uint64_t seed = 1; seed <= 80; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    PageLedger ledger(kinds[seed % kinds.size()]);
    std::vector<PageLedger::Seq> seqs;
    std::vector<Tokens> history = {RandomTokens(random, 400)};
    for (int action = 0; action < 120 && !testing::Test::HasFatalFailure(); ++action) {
      const size_t pick = seqs.empty() ? 0 : random() % seqs.size();
      if (seqs.empty() || random() % 4 == 0) {
        const Tokens& old = history[random() % history.size()];
        PageLedger::Seq seq{.salt = random() % 8 == 0 ? "x" : ""};
        seq.tokens.assign(old.begin(), old.begin() + random() % old.size());
        const Tokens more = RandomTokens(random, 1 + random() % 300);
        seq.tokens.insert(seq.tokens.end(), more.begin(), more.end());
        history.push_back(seq.tokens);
        if (ledger.Start(seq)) {
          reused += seq.computed;
          seqs.push_back(std::move(seq));
        }
      } else if (random() % 6 == 0 || seqs[pick].computed == std::ssize(seqs[pick].tokens)) {
        ledger.kv.Release(seqs[pick].pages);
        seqs.erase(seqs.begin() + pick);
      } else {
        PageLedger::Seq& seq = seqs[pick];
        const int64_t end = std::min<int64_t>(seq.computed + 1 + random() % 150, seq.tokens.size());
        if (ledger.CanExtend(seq, end)) ledger.Compute(seq, end);
      }
      ledger.CheckCounts(seqs);
    }
    for (PageLedger::Seq& seq : seqs) ledger.kv.Release(seq.pages);
    ASSERT_EQ(ledger.kv.used_pages(), 0);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(reused, 100'000);
}

}  // namespace
}  // namespace rose
