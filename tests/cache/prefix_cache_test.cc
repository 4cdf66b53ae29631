// KvPages with the prefix cache, against a ledger of what every page holds: a slot's entry is a
// hash of all tokens up to its position, so a page that is wrong in any way is seen by who reads
// it.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "base/check.h"
#include "cache/kv_pages.h"

namespace rose {
namespace {

constexpr int64_t kPage = 64;
using Tokens = std::vector<int32_t>;

class Ledger {
 public:
  explicit Ledger(std::vector<PageGroup> groups) : kv(groups, kPage, /*prefix_cache=*/true) {
    for (const PageGroup& group : groups) slots_.emplace_back(group.pages * kPage);
  }

  struct Seq {
    Tokens tokens;
    SeqPages pages;
    std::string salt;
    int64_t computed = 0;
    std::vector<uint64_t> hashes = {};  // by position: of salt and all tokens up to it
  };

  // False if there is no room.
  bool Start(Seq& seq) {
    seq.pages = kv.NewSequence();
    seq.pages.marks[0] = static_cast<int64_t>(seq.tokens.size());
    const auto match = kv.Find(seq.salt, std::span(seq.tokens).first(seq.tokens.size() - 1));
    for (size_t g = 0; g < slots_.size(); ++g)
      if (kv.ReuseCost(match, g) + 1 > kv.available(g)) return false;
    std::vector<int64_t> before;
    for (size_t g = 0; g < slots_.size(); ++g)
      before.push_back(kv.available(g) - kv.ReuseCost(match, g));
    seq.computed = kv.Reuse(seq.pages, match);
    for (size_t g = 0; g < slots_.size(); ++g) EXPECT_EQ(kv.available(g), before[g]);
    PageCopies copies;
    kv.Cover(seq.pages, seq.computed + 1);
    kv.TakeCopies(copies);
    for (const PageCopy& copy : copies.within)
      std::copy_n(&slots_[copy.group][copy.from * kPage], kPage,
                  &slots_[copy.group][copy.to * kPage]);
    return true;
  }

  bool CanExtend(const Seq& seq, int64_t end) const {
    for (size_t g = 0; g < slots_.size(); ++g)
      if ((end + kPage - 1) / kPage - seq.pages.covered > kv.available(g)) return false;
    return true;
  }

  // Computes up to `end`: writes, then reads what every query reaches.
  void Compute(Seq& seq, int64_t end) {
    kv.Cover(seq.pages, end);
    for (int64_t p = seq.computed; p < end; ++p) {
      for (size_t g = 0; g < slots_.size(); ++g) {
        const int32_t page = seq.pages.tables[g][p / kPage];
        ASSERT_EQ(kv.owners(g, page), 1) << "a page with several owners is written to";
        slots_[g][page * kPage + p % kPage] = HashOf(seq, p);
      }
    }
    for (int64_t p = seq.computed; p < end; ++p) Read(seq, p);
    seq.computed = end;
    kv.Publish(seq.pages, seq.salt, std::span(seq.tokens).first(end));
    kv.Slide(seq.pages, end);
  }

  void CheckCounts(const std::vector<Seq>& seqs) const {
    int64_t used = 0;
    for (size_t g = 0; g < slots_.size(); ++g) {
      std::set<int32_t> pages;
      for (const Seq& seq : seqs)
        for (const int32_t page : seq.pages.tables[g])
          if (page != kNoPage) pages.insert(page);
      used += static_cast<int64_t>(pages.size());
      ASSERT_EQ(static_cast<int64_t>(pages.size()) + kv.available(g), kv.groups()[g].pages);
    }
    ASSERT_EQ(kv.used_pages(), used);
  }

  KvPages kv;

 private:
  static uint64_t HashOf(Seq& seq, int64_t position) {
    while (std::ssize(seq.hashes) <= position) {
      const uint64_t before =
          seq.hashes.empty() ? std::hash<std::string>()(seq.salt) : seq.hashes.back();
      seq.hashes.push_back((before ^ seq.tokens[seq.hashes.size()]) * 0x9e3779b97f4a7c15u + 1);
    }
    return seq.hashes[position];
  }
  void Read(Seq& seq, int64_t query) const {
    for (size_t g = 0; g < slots_.size(); ++g) {
      const int64_t window = kv.groups()[g].window;
      // All keys is slow; the ends and a few between find the same.
      const int64_t first = window == 0 ? 0 : std::max<int64_t>(0, query - window + 1);
      for (int64_t key = query; key >= first; key -= (key % 29 == 0 ? 1 : 7)) {
        const int32_t page = seq.pages.tables[g][key / kPage];
        ASSERT_NE(page, kNoPage) << "query " << query << " key " << key;
        ASSERT_EQ(slots_[g][page * kPage + key % kPage], HashOf(seq, key))
            << "query " << query << " key " << key << " group " << g;
      }
    }
  }

  std::vector<std::vector<uint64_t>> slots_;  // [group][page * kPage + slot]
};

Tokens RandomTokens(std::mt19937_64& random, int64_t count) {
  Tokens out(count);
  for (int32_t& token : out) token = static_cast<int32_t>(random() % 3);
  return out;
}

// Tokens that B shares with A, and what of them B need not compute.
int64_t Reused(Ledger& ledger, const Tokens& a, int64_t shared, const std::string& salt = "") {
  Tokens b(a.begin(), a.begin() + shared);
  b.insert(b.end(), 100, 7);
  const auto match = ledger.kv.Find(salt, std::span(b).first(b.size() - 1));
  return static_cast<int64_t>(match.path.size()) * kPage + match.part_tokens;
}

TEST(Case072, ReuseIsExactWhereEveryGroupHasItsPages) {
  std::mt19937_64 random(1);
  Ledger ledger({{.window = 128, .pages = 100}, {.window = 0, .pages = 100}});
  Ledger::Seq a{.tokens = RandomTokens(random, 900)};
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
  Ledger ledger({{.window = 128, .pages = 9}, {.window = 0, .pages = 100}});
  Ledger::Seq a{.tokens = RandomTokens(random, 1600)};
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
  Ledger ledger({{.window = 0, .pages = 100}});
  const Tokens tokens = RandomTokens(random, 200);
  for (const char* salt : {"a", "bc", ""}) {
    Ledger::Seq seq{.tokens = tokens, .salt = salt};
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
    Ledger ledger(kinds[seed % kinds.size()]);
    std::vector<Ledger::Seq> seqs;
    std::vector<Tokens> history = {RandomTokens(random, 400)};
    for (int action = 0; action < 120 && !testing::Test::HasFatalFailure(); ++action) {
      const size_t pick = seqs.empty() ? 0 : random() % seqs.size();
      if (seqs.empty() || random() % 4 == 0) {
        const Tokens& old = history[random() % history.size()];
        Ledger::Seq seq{.salt = random() % 8 == 0 ? "x" : ""};
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
        Ledger::Seq& seq = seqs[pick];
        const int64_t end = std::min<int64_t>(seq.computed + 1 + random() % 150, seq.tokens.size());
        if (ledger.CanExtend(seq, end)) ledger.Compute(seq, end);
      }
      ledger.CheckCounts(seqs);
    }
    for (Ledger::Seq& seq : seqs) ledger.kv.Release(seq.pages);
    ASSERT_EQ(ledger.kv.used_pages(), 0);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(reused, 100'000);
}

}  // namespace
}  // namespace rose
