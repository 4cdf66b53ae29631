// Must: 10,000 random schedules of the scheduler and the cache together, without an engine. After
// every step: no page has two writers, pages add up, owners are those that a brute-force count
// finds, every page holds what its readers expect, nobody waits longer than the bound, and who was
// cancelled holds nothing.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <set>

#include "scheduler/scheduler.h"

namespace rose {
namespace {

constexpr int64_t kPage = 4;  // small, so that everything happens often
constexpr int64_t kWindow = 8;

// A sequence as an engine would keep it, with hashes of its beginnings in place of K and V.
struct SimSeq {
  int64_t age = 0;
  int64_t output = 0;       // tokens to draw
  int64_t must_end_by = 0;  // step, see Simulation::Add
  int64_t prompt = 0;
  std::vector<int32_t> tokens;  // known
  int64_t computed = 0;
  int64_t draft = 0;
  SeqPages pages;
  PrefixTree::Match match;

  int64_t known() const { return std::ssize(tokens); }
  int64_t positions() const { return prompt + output; }
  // What K and V at a position follow from: all tokens up to it.
  uint64_t Content(int64_t position) const {
    uint64_t hash = 1469598103934665603u;
    for (int64_t i = 0; i <= position; ++i) hash = (hash ^ tokens[i]) * 1099511628211u;
    return hash;
  }
};

class Simulation {
 public:
  Simulation(const std::vector<PageGroup>& groups, const SchedulerLimits& limits, bool prefix_cache,
             uint64_t seed)
      : kv_(groups, kPage, prefix_cache),
        planner_(limits, kv_.groups(), kPage),
        limits_(limits),
        random_(seed) {
    for (const PageGroup& group : kv_.groups()) {
      memory_.emplace_back(group.pages * kPage, 0);
      host_.emplace_back(group.host_pages * kPage, 0);
    }
  }

  // The bound on waiting: in every step the oldest that runs advances by a position at least, and
  // it is never sent back, so a request ends once all older ones could have been computed alone,
  // one position a step, and it as well.
  bool Add(std::vector<int32_t> prompt, int64_t output) {
    const int64_t positions = std::ssize(prompt) + output;
    if (!CanEverFit(kv_.groups(), kPage, positions - 1)) return false;
    SimSeq seq;
    seq.age = next_age_++;
    seq.output = output;
    seq.prompt = std::ssize(prompt);
    seq.tokens = std::move(prompt);
    seq.pages = kv_.NewSequence();
    seq.must_end_by = step_ + positions;
    for (const auto* older : {&running_, &waiting_})
      for (const SimSeq& other : *older) seq.must_end_by += other.positions();
    waiting_.push_back(std::move(seq));
    return true;
  }

  void CancelRandom() {
    if (!running_.empty() && random_() % 2 == 0) {
      const size_t i = random_() % running_.size();
      kv_.Release(running_[i].pages);
      running_.erase(running_.begin() + i);
    } else if (!waiting_.empty()) {
      waiting_.erase(waiting_.begin() + random_() % waiting_.size());
    }
  }

  void Step() {
    for (SimSeq& seq : running_) {
      const bool decodes = seq.computed == seq.known() - 1 && seq.computed > 0;
      const int64_t left = seq.positions() - seq.known();
      seq.draft = decodes ? std::min<int64_t>(random_() % 4, left - 1) : 0;
    }
    Plan();
    if (testing::Test::HasFatalFailure()) return;
    Compute();
    if (testing::Test::HasFatalFailure()) return;
    ++step_;
    Account();
  }

  bool idle() const { return running_.empty() && waiting_.empty(); }
  int64_t step() const { return step_; }
  const KvPages& kv() const { return kv_; }
  int64_t preemptions() const { return preemptions_; }
  int64_t reused() const { return reused_; }
  // A conversation to go on from.
  std::vector<int32_t> Old() {
    return old_.empty() ? std::vector<int32_t>() : old_[random_() % old_.size()];
  }

 private:
  bool Begin() {
    free_.clear();
    for (size_t g = 0; g < kv_.groups().size(); ++g) free_.push_back(kv_.available(g));
    figures_.clear();
    for (const SimSeq& seq : running_) {
      figures_.push_back({.known = seq.known(),
                          .computed = seq.computed,
                          .draft = seq.draft,
                          .covered = seq.pages.covered,
                          .held = seq.pages.held});
    }
    return planner_.Begin(figures_, free_);
  }

  void Plan() {
    bool may_admit = true;
    while (!Begin()) {
      ASSERT_GT(running_.size(), 1u);
      Preempt();
      may_admit = false;
    }
    const size_t ran = running_.size();
    while (may_admit && !waiting_.empty() && Admit()) {
    }
    planner_.Finish();
    const std::span<const int64_t> rows = planner_.rows();
    ASSERT_EQ(rows.size(), running_.size());
    ASSERT_LE(std::ssize(rows), limits_.max_running);
    int64_t sum = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      const SimSeq& seq = running_[i];
      ASSERT_GE(rows[i], i < ran ? 0 : 1);
      ASSERT_LE(rows[i], seq.known() - seq.computed + seq.draft);
      ASSERT_LE(rows[i], limits_.prefill_chunk + seq.draft);
      sum += rows[i];
    }
    ASSERT_LE(sum, limits_.max_step_tokens);
    ASSERT_GT(rows.empty() ? 0 : rows[0], 0) << "the oldest does not progress";
  }

  bool Admit() {
    SimSeq& seq = waiting_.front();
    seq.match = kv_.Find("", std::span(seq.tokens).first(seq.known() - 1));
    std::vector<int64_t> held, cost;
    for (int64_t g = 0; g < std::ssize(kv_.groups()); ++g) {
      held.push_back(kv_.ReuseHeld(seq.match, g));
      cost.push_back(kv_.ReuseCost(seq.match, g));
    }
    if (planner_.Admit({.known = seq.known(),
                        .computed = seq.match.tokens(kPage),
                        .covered = std::ssize(seq.match.path),
                        .held = held,
                        .reuse_cost = cost}) == 0)
      return false;
    running_.push_back(std::move(seq));
    waiting_.pop_front();
    running_.back().computed = kv_.Reuse(running_.back().pages, running_.back().match);
    reused_ += running_.back().computed;
    return true;
  }

  void Preempt() {
    SimSeq& victim = running_.back();
    ASSERT_NE(victim.age, running_.front().age);
    kv_.Release(victim.pages);
    victim.computed = 0;
    victim.draft = 0;
    waiting_.push_front(std::move(victim));
    running_.pop_back();
    ++preemptions_;
  }

  // What an executor does: copies, writes, reads. Then the draws, all of which a draft may survive.
  void Compute() {
    const std::span<const int64_t> rows = planner_.rows();
    for (size_t i = 0; i < rows.size(); ++i)
      if (rows[i] > 0) kv_.Cover(running_[i].pages, running_[i].computed + rows[i]);
    PageCopies copies;
    kv_.TakeCopies(copies);
    Copy(copies.to_host, memory_, host_);
    Copy(copies.to_device, host_, memory_);
    Copy(copies.within, memory_, memory_);
    std::set<std::pair<size_t, int32_t>> writers;
    for (size_t i = 0; i < rows.size(); ++i)
      if (rows[i] > 0) ComputeRows(running_[i], rows[i], writers);
    if (testing::Test::HasFatalFailure()) return;
    for (size_t i = 0; i < rows.size(); ++i)
      if (rows[i] > 0) Advance(running_[i], rows[i]);
    std::erase_if(running_, [&](SimSeq& seq) {
      if (seq.known() < seq.positions()) return false;
      kv_.Release(seq.pages);
      old_.push_back(seq.tokens);
      return true;
    });
  }

  using Memory = std::vector<std::vector<uint64_t>>;  // [group][page * kPage + slot]
  static void Copy(const std::vector<PageCopy>& copies, const Memory& from, Memory& to) {
    for (const PageCopy& copy : copies)
      std::copy_n(&from[copy.group][copy.from * kPage], kPage, &to[copy.group][copy.to * kPage]);
  }

  void ComputeRows(SimSeq& seq, int64_t rows, std::set<std::pair<size_t, int32_t>>& writers) {
    const int64_t end = seq.computed + rows;
    // The draft stands for tokens that may turn out wrong; those of its rows are garbage.
    for (size_t g = 0; g < memory_.size(); ++g) {
      for (int64_t i = seq.computed / kPage; i < seq.pages.covered; ++i)
        ASSERT_TRUE(writers.insert({g, seq.pages.tables[g][i]}).second) << "two writers";
      for (int64_t p = seq.computed; p < end; ++p)
        Slot(seq, g, p) = p < seq.known() ? seq.Content(p) : 0;
      const int64_t window = kv_.groups()[g].window;
      const int64_t first = window == 0 ? 0 : std::max<int64_t>(0, seq.computed - window + 1);
      for (int64_t p = first; p < std::min(end, seq.known()); ++p)
        ASSERT_EQ(Slot(seq, g, p), seq.Content(p)) << "group " << g << " position " << p;
    }
  }

  uint64_t& Slot(const SimSeq& seq, size_t g, int64_t position) {
    const int32_t page = seq.pages.tables[g][position / kPage];
    EXPECT_GE(page, 0);
    return memory_[g][std::max(page, 0) * kPage + position % kPage];
  }

  void Advance(SimSeq& seq, int64_t rows) {
    const int64_t end = seq.computed + rows;
    const int64_t drafted = std::max<int64_t>(0, end - seq.known());
    if (end < seq.known()) {
      seq.computed = end;
    } else {
      // All rows of a draft hold garbage here, so none of it is kept.
      seq.tokens.push_back(static_cast<int32_t>(random_() % 3));
      seq.computed = seq.known() - 1;
      ASSERT_GE(drafted, 0);
    }
    kv_.Publish(seq.pages, "", std::span(seq.tokens).first(seq.computed));
    kv_.Slide(seq.pages, seq.computed);
  }

  void Account() {
    for (size_t i = 1; i < running_.size(); ++i) ASSERT_LT(running_[i - 1].age, running_[i].age);
    if (!running_.empty() && !waiting_.empty()) {
      ASSERT_LT(running_.back().age, waiting_.front().age);
    }
    int64_t used = 0;
    for (size_t g = 0; g < kv_.groups().size(); ++g) {
      std::map<int32_t, int64_t> users;
      for (const SimSeq& seq : running_)
        for (int32_t page : seq.pages.tables[g])
          if (page != kNoPage) ++users[page];
      used += std::ssize(users);
      ASSERT_EQ(std::ssize(users) + kv_.available(g), kv_.groups()[g].pages);
      for (int32_t page = 0; page < kv_.groups()[g].pages; ++page) {
        // One more than its users if the tree keeps it, which it must if several use it.
        const int64_t by_tree = kv_.owners(g, page) - users[page];
        ASSERT_TRUE(by_tree == 0 || by_tree == 1) << "page " << page;
        ASSERT_TRUE(users[page] < 2 || by_tree == 1) << "page " << page;
      }
    }
    ASSERT_EQ(kv_.used_pages(), used);
    ASSERT_LE(kv_.host_pages_used(), kv_.host_pages());
    for (const SimSeq& seq : waiting_) ASSERT_EQ(seq.pages.covered, 0);
    for (const auto* seqs : {&running_, &waiting_})
      for (const SimSeq& seq : *seqs) ASSERT_LT(step_, seq.must_end_by) << "it starves";
  }

  KvPages kv_;
  StepPlanner planner_;
  const SchedulerLimits limits_;
  std::mt19937_64 random_;
  Memory memory_, host_;
  std::deque<SimSeq> running_, waiting_;
  std::vector<std::vector<int32_t>> old_;
  std::vector<SeqFigures> figures_;
  std::vector<int64_t> free_;
  int64_t step_ = 0, next_age_ = 0, preemptions_ = 0, reused_ = 0;
};

// What happened over all schedules: a test that meets none of it tests nothing.
struct Seen {
  int64_t preemptions = 0, reused = 0, swapped_in = 0, swapped_out = 0;
};

void RunSchedule(uint64_t seed, Seen& seen) {
  std::mt19937_64 random(seed);
  SchedulerLimits limits;
  limits.max_step_tokens = 1 + random() % 40;
  limits.prefill_chunk = 1 + random() % limits.max_step_tokens;
  limits.max_running = 1 + random() % std::min<int64_t>(limits.max_step_tokens, 10);
  const int64_t full = 2 + random() % 20, host = random() % 2 == 0 ? 0 : random() % 20;
  const std::vector<PageGroup> groups = {
      {.window = kWindow, .pages = 3 + static_cast<int64_t>(random() % 10), .host_pages = host},
      {.window = 0, .pages = full, .host_pages = 2 * host}};
  Simulation simulation(groups, limits, /*prefix_cache=*/random() % 4 != 0, seed);
  const int64_t arrivals = 3 + random() % 12;
  for (int64_t i = 0; i < arrivals || !simulation.idle();) {
    if (i < arrivals && (simulation.idle() || random() % 3 == 0)) {
      ++i;
      std::vector<int32_t> prompt = random() % 2 == 0 ? simulation.Old() : std::vector<int32_t>();
      prompt.resize(random() % (prompt.size() + 1));
      const int64_t more = 1 + random() % (full * kPage);
      for (int64_t t = 0; t < more; ++t) prompt.push_back(static_cast<int32_t>(random() % 3));
      if (!simulation.Add(std::move(prompt), 1 + random() % 20)) continue;
    }
    if (random() % 20 == 0) simulation.CancelRandom();
    if (!simulation.idle()) simulation.Step();
    if (testing::Test::HasFatalFailure()) return;
  }
  ASSERT_EQ(simulation.kv().used_pages(), 0);
  seen.preemptions += simulation.preemptions();
  seen.reused += simulation.reused();
  seen.swapped_out += simulation.kv().swapped_out();
  seen.swapped_in += simulation.kv().swapped_in();
}

TEST(Case093, RandomTrafficAlwaysProgresses) {
  Seen seen;
  for (uint64_t seed = 1; seed <= 10'000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RunSchedule(seed, seen);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(seen.preemptions, 1000);
  EXPECT_GT(seen.reused, 10'000);
  EXPECT_GT(seen.swapped_out, 1000);
  EXPECT_GT(seen.swapped_in, 1000);
}

}  // namespace
}  // namespace rose
