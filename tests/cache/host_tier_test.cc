// The host tier of the prefix cache; see page_ledger.h.
#include <gtest/gtest.h>

#include <random>

#include "bench/allocation_count.h"
#include "cache/page_ledger.h"

namespace rose {
namespace {

using Seq = PageLedger::Seq;
constexpr int64_t kPage = PageLedger::kPage;

int64_t Found(const PageLedger& ledger, const Tokens& tokens) {
  return ledger.kv.Find("", tokens).tokens(kPage);
}

// Computes `tokens` in chunks and ends the sequence; all must fit.
void RunAlone(PageLedger& ledger, const Tokens& tokens, int64_t chunk) {
  Seq seq{.tokens = tokens};
  ASSERT_TRUE(ledger.Start(seq));
  while (seq.computed < std::ssize(tokens)) {
    const int64_t end = std::min<int64_t>(seq.computed + chunk, std::ssize(tokens));
    ASSERT_TRUE(ledger.CanExtend(seq, end));
    ledger.Compute(seq, end);
  }
  ledger.kv.Release(seq.pages);
}

// A crowd over pools that are too small, on both tiers.
class Crowd {
 public:
  Crowd(PageLedger& ledger, uint64_t seed) : ledger_(ledger), random_(seed) {
    history_.push_back({"", RandomTokens(random_, 400)});
  }

  void Act() {
    // Finished, cancelled or preempted: the same to the cache.
    std::erase_if(seqs_, [&](Seq& seq) {
      const bool ends = seq.computed == std::ssize(seq.tokens) || random_() % 12 == 0;
      if (ends) ledger_.kv.Release(seq.pages);
      return ends;
    });
    std::vector<PageLedger::Extension> extended;
    std::vector<int64_t> left;
    for (int64_t g = 0; g < std::ssize(ledger_.kv.groups()); ++g)
      left.push_back(ledger_.kv.available(g));
    for (Seq& seq : seqs_) {
      const int64_t end = std::min<int64_t>(seq.computed + 1 + random_() % 150, seq.tokens.size());
      const int64_t pages = PageLedger::PagesFor(seq, end);
      if (random_() % 3 == 0 || pages > *std::min_element(left.begin(), left.end())) continue;
      for (int64_t& free : left) free -= pages;
      extended.push_back({&seq, end});
    }
    std::vector<Seq> fresh;
    for (int i = random_() % 4; i > 0; --i) fresh.push_back(NewSeq());
    std::vector<Seq*> pointers;
    for (Seq& seq : fresh) pointers.push_back(&seq);
    const int64_t begun = ledger_.Step(extended, pointers);
    for (int64_t i = 0; i < begun; ++i) {
      reused += fresh[i].computed;
      seqs_.push_back(std::move(fresh[i]));
    }
    ledger_.CheckCounts(seqs_);
    const auto& [salt, tokens] = history_[random_() % history_.size()];
    ledger_.CheckFound(salt, tokens);
  }

  void End() {
    for (Seq& seq : seqs_) ledger_.kv.Release(seq.pages);
    for (const auto& [salt, tokens] : history_) ledger_.CheckFound(salt, tokens);
    ASSERT_EQ(ledger_.kv.used_pages(), 0);
  }

  int64_t reused = 0;

 private:
  Seq NewSeq() {
    const auto& [salt, old] = history_[random_() % history_.size()];
    Seq seq{.salt = random_() % 8 == 0 ? "x" : salt};
    seq.tokens.assign(old.begin(), old.begin() + random_() % old.size());
    const Tokens more = RandomTokens(random_, 1 + random_() % 200);
    seq.tokens.insert(seq.tokens.end(), more.begin(), more.end());
    history_.emplace_back(seq.salt, seq.tokens);
    return seq;
  }

  PageLedger& ledger_;
  std::mt19937_64 random_;
  std::vector<Seq> seqs_;
  std::vector<std::pair<std::string, Tokens>> history_;
};

TEST(HostTier, RandomCrowdsReadWhatWasComputed) {
  const std::vector<std::vector<PageGroup>> kinds = {
      {{.window = 128, .pages = 14, .host_pages = 20},
       {.window = 0, .pages = 30, .host_pages = 60}},
      {{.window = 128, .pages = 14, .host_pages = 3}, {.window = 0, .pages = 30, .host_pages = 9}},
      {{.window = 128, .pages = 14, .host_pages = 0}, {.window = 0, .pages = 30, .host_pages = 40}},
      {{.window = 128, .pages = 14, .host_pages = 40}, {.window = 0, .pages = 30}},
      {{.window = 0, .pages = 20, .host_pages = 25}},
      {{.window = 70, .pages = 14, .host_pages = 15}},
      {{.window = 0, .pages = 30, .host_pages = 12},
       {.window = 1, .pages = 8, .host_pages = 4},
       {.window = 0, .pages = 26, .host_pages = 20}}};
  int64_t reused = 0, out = 0, in = 0;
  for (uint64_t seed = 1; seed <= 105; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    PageLedger ledger(kinds[seed % kinds.size()]);
    Crowd crowd(ledger, seed);
    for (int action = 0; action < 100; ++action) {
      crowd.Act();
      if (testing::Test::HasFailure()) return;
    }
    crowd.End();
    if (testing::Test::HasFailure()) return;
    reused += crowd.reused;
    out += ledger.kv.swapped_out();
    in += ledger.kv.swapped_in();
  }
  EXPECT_GT(reused, 100'000);
  EXPECT_GT(out, 5'000);
  EXPECT_GT(in, 2'000);
}

// Whatever the position at which a sequence stops, it is found again up to its last whole page,
// though many others came after it.
TEST(HostTier, NothingIsLostWhileItHasRoom) {
  for (const int64_t window : {128, 70, 64}) {
    std::mt19937_64 random(window);
    PageLedger ledger({{.window = window, .pages = 8, .host_pages = 2000},
                       {.window = 0, .pages = 14, .host_pages = 2000}});
    std::vector<Tokens> all;
    for (int64_t length = 300; length < 300 + 2 * kPage; ++length) {
      all.push_back(RandomTokens(random, length));
      RunAlone(ledger, all.back(), /*chunk=*/length % 2 == 0 ? 1 : 37);
      if (testing::Test::HasFatalFailure()) return;
    }
    for (const Tokens& tokens : all) {
      EXPECT_EQ(Found(ledger, tokens), std::ssize(tokens) / kPage * kPage);
      ledger.CheckFound("", tokens);
      Tokens longer = tokens;
      longer.resize(longer.size() + 10, 2);
      RunAlone(ledger, longer, 64);
    }
  }
}

// Once both tiers have been full, steps that take, publish, swap and drop pages allocate nothing.
TEST(HostTier, AFullCacheAllocatesNothing) {
  if (AllocationsOfThread() < 0) GTEST_SKIP() << "a sanitizer has its own operator new";
  std::mt19937_64 random(6);
  KvPages kv({{.window = 128, .pages = 12, .host_pages = 10},
              {.window = 0, .pages = 30, .host_pages = 20}},
             kPage, /*prefix_cache=*/true);
  PageCopies copies;
  int64_t allocations = 0;
  for (int i = 0; i < 12; ++i) {
    const Tokens tokens = RandomTokens(random, 1500);
    SeqPages seq = kv.NewSequence();
    kv.Reserve(seq, std::ssize(tokens));
    const int64_t before = AllocationsOfThread();
    for (int64_t end = 1; end <= std::ssize(tokens); ++end) {
      kv.Cover(seq, end);
      kv.TakeCopies(copies);
      kv.Publish(seq, "", std::span(tokens).first(end));
      kv.Slide(seq, end);
    }
    kv.Release(seq);
    if (i >= 6) allocations += AllocationsOfThread() - before;
  }
  EXPECT_EQ(allocations, 0);
  EXPECT_GT(kv.swapped_out(), 100);
}

// A small device and two sequences that each fill it.
class TwoFill : public testing::Test {
 protected:
  // Begins like no other.
  Tokens Pages(int64_t count) {
    Tokens tokens = RandomTokens(random_, count * kPage);
    tokens[0] = made_++;
    return tokens;
  }

  int32_t made_ = 10;
  std::mt19937_64 random_{4};
  Tokens first_ = Pages(4), second_ = Pages(6);
};

TEST_F(TwoFill, WhatTheHostStillHasIsNotCopiedAgain) {
  PageLedger ledger({{.window = 0, .pages = 6, .host_pages = 20}});
  RunAlone(ledger, first_, 64);
  EXPECT_EQ(ledger.kv.swapped_out(), 0);
  RunAlone(ledger, second_, 64);
  EXPECT_EQ(ledger.kv.swapped_out(), 4);
  first_.push_back(1);  // all pages but the new one come from the host
  RunAlone(ledger, first_, 64);
  EXPECT_EQ(ledger.kv.swapped_in(), 4);
  EXPECT_EQ(ledger.kv.swapped_out(), 4 + 5);
  second_[5 * kPage] ^= 1;  // its first page is still on the device
  RunAlone(ledger, second_, 64);
  EXPECT_EQ(ledger.kv.swapped_in(), 4 + 4);
  EXPECT_EQ(ledger.kv.swapped_out(), 4 + 5) << "the first's pages were copied again";
}

TEST_F(TwoFill, TwoThatShareAHostPageBringItInOnce) {
  PageLedger ledger({{.window = 0, .pages = 6, .host_pages = 20}});
  RunAlone(ledger, first_, 64);
  RunAlone(ledger, second_, 64);
  Seq a{.tokens = Tokens(first_.begin(), first_.begin() + 2 * kPage)};
  Seq b = a;
  a.tokens.push_back(5);
  b.tokens.push_back(6);
  ASSERT_EQ(ledger.Step({}, {&a, &b}), 2);
  EXPECT_EQ(a.pages.host_tokens, 2 * kPage);
  EXPECT_EQ(ledger.copies.to_device.size(), 2u);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(a.pages.tables[0][i], b.pages.tables[0][i]);
  ledger.Step({{&a, 2 * kPage + 1}, {&b, 2 * kPage + 1}}, {});
  ledger.kv.Release(a.pages);
  ledger.kv.Release(b.pages);
  EXPECT_EQ(ledger.kv.used_pages(), 0);
}

TEST_F(TwoFill, APartIsCopiedFromTheHostIntoTheSequencesOwnPage) {
  PageLedger ledger({{.window = 0, .pages = 6, .host_pages = 20}});
  RunAlone(ledger, first_, 64);
  RunAlone(ledger, second_, 64);
  Seq part{.tokens = Tokens(first_.begin(), first_.begin() + 40)};
  part.tokens.push_back(5);
  ASSERT_TRUE(ledger.Start(part));
  EXPECT_EQ(part.computed, 40);
  EXPECT_EQ(part.pages.host_tokens, 40);
  EXPECT_TRUE(ledger.copies.within.empty());
  EXPECT_EQ(ledger.copies.to_device.size(), 1u);
  EXPECT_EQ(ledger.kv.owners(0, part.pages.tables[0][0]), 1);
  ledger.Compute(part, 41);
  ledger.kv.Release(part.pages);
}

// It gives up what the device has too, then what was evicted first: the ends of the oldest.
TEST_F(TwoFill, AFullHostLosesTheLeast) {
  PageLedger ledger({{.window = 0, .pages = 6, .host_pages = 10}});
  const Tokens third = Pages(2), fourth = Pages(6);
  Tokens longer = first_;
  longer.push_back(1);
  // Pages that are found of the three, and of those in all.
  const auto expect = [&](int64_t first, int64_t second, int64_t last) {
    EXPECT_EQ(Found(ledger, first_), first * kPage);
    EXPECT_EQ(Found(ledger, second_), second * kPage);
    EXPECT_EQ(Found(ledger, third), last * kPage);
  };
  RunAlone(ledger, first_, 64);
  RunAlone(ledger, second_, 64);  // the first's 4 pages go to the host
  RunAlone(ledger, longer, 64);   // and come back; 5 of the second's go
  RunAlone(ledger, third, 64);    // the last of it too; the host is full
  EXPECT_EQ(ledger.kv.host_pages_used(), 10);
  RunAlone(ledger, longer, 64);  // a page of the third goes, for a copy of the first's
  EXPECT_EQ(ledger.kv.swapped_out(), 4 + 6 + 1);
  expect(4, 6, 2);
  RunAlone(ledger, fourth, 64);  // 4 + 6 + 2 + 6 pages are two more than there are
  EXPECT_EQ(Found(ledger, fourth), 6 * kPage);
  expect(4, 4, 2);
}

// A sequence may end between being admitted and its first step.
TEST_F(TwoFill, WhatWasPinnedButNeverBroughtInIsGivenBack) {
  PageLedger ledger({{.window = 0, .pages = 6, .host_pages = 20}});
  RunAlone(ledger, first_, 64);
  RunAlone(ledger, second_, 64);
  const auto match = ledger.kv.Find("", std::span(first_).first(3 * kPage + 9));
  SeqPages pages = ledger.kv.NewSequence();
  EXPECT_EQ(ledger.kv.ReuseCost(match, 0), 3);
  EXPECT_EQ(ledger.kv.Reuse(pages, match), 3 * kPage + 9);
  EXPECT_EQ(ledger.kv.available(0), 3);
  ledger.kv.Release(pages);
  EXPECT_EQ(ledger.kv.available(0), 6);
  ledger.CheckCounts({});
  RunAlone(ledger, first_, 64);
  RunAlone(ledger, second_, 64);
}

}  // namespace
}  // namespace rose
