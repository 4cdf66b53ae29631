#include "scheduler/scheduler.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <set>
#include <utility>

namespace rose {
namespace {

constexpr int64_t kPage = 64;

struct SchedulerInput {
  std::span<const PageGroup> groups;
  std::span<const int64_t> free;
  std::span<const SeqFigures> running, waiting;
  bool may_admit = true;
};

struct ScheduledStep {
  bool preempt = false;
  std::vector<int64_t> rows, admitted;
};

// One step as the engine plans it.
ScheduledStep PlanStep(const SchedulerLimits& limits, const SchedulerInput& input) {
  StepPlanner planner(limits, input.groups, kPage);
  if (!planner.Begin(input.running, input.free)) return {.preempt = true};
  for (const SeqFigures& seq : input.waiting) {
    if (!input.may_admit || planner.Admit(seq) == 0) break;
  }
  planner.Finish();
  const std::span<const int64_t> rows = planner.rows();
  const auto ran = rows.begin() + std::ssize(input.running);
  return {.rows = {rows.begin(), ran}, .admitted = {ran, rows.end()}};
}

// A sequence of the simulation: what an engine would keep, without tokens.
struct SimSeq {
  int64_t age = 0;
  int64_t prompt = 0;
  int64_t output = 0;  // tokens to draw
  int64_t known = 0;
  int64_t computed = 0;
  int64_t draft = 0;
  int64_t waited = 0;  // steps in a row without a row while running
  SeqPages pages;
};

class Simulation {
 public:
  Simulation(std::vector<PageGroup> groups, SchedulerLimits limits, uint64_t seed)
      : limits_(limits), kv_(std::move(groups), kPage), random_(seed) {}

  bool Add(int64_t prompt, int64_t output) {
    if (!CanEverFit(kv_.groups(), kPage, prompt + output - 1)) return false;
    waiting_.push_back({.age = next_age_++,
                        .prompt = prompt,
                        .output = output,
                        .known = prompt,
                        .pages = kv_.NewSequence()});
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
      const bool decodes = seq.computed == seq.known - 1 && seq.computed > 0;
      const int64_t left = seq.prompt + seq.output - seq.known;
      seq.draft = decodes ? std::min<int64_t>(random_() % 4, left - 1) : 0;
    }
    bool may_admit = true;
    ScheduledStep step = Plan(may_admit);
    while (step.preempt) {
      ASSERT_GT(running_.size(), 1u);
      Preempt();
      step = Plan(may_admit = false);
    }
    Check(step, may_admit);
    Apply(step);
    Account();
  }

  bool idle() const { return running_.empty() && waiting_.empty(); }
  int64_t preemptions() const { return preemptions_; }
  int64_t finished() const { return finished_; }
  const std::deque<SimSeq>& running() const { return running_; }
  int64_t used_pages() const { return kv_.used_pages(); }

 private:
  static std::vector<SeqFigures> Figures(const std::deque<SimSeq>& seqs) {
    std::vector<SeqFigures> figures;
    for (const SimSeq& seq : seqs) {
      figures.push_back({.known = seq.known,
                         .computed = seq.computed,
                         .draft = seq.draft,
                         .covered = seq.pages.covered,
                         .held = seq.pages.held});
    }
    return figures;
  }

  ScheduledStep Plan(bool may_admit) const {
    std::vector<int64_t> free;
    for (size_t g = 0; g < kv_.groups().size(); ++g) free.push_back(kv_.available(g));
    const std::vector<SeqFigures> running = Figures(running_), waiting = Figures(waiting_);
    return PlanStep(limits_, {.groups = kv_.groups(),
                              .free = free,
                              .running = running,
                              .waiting = waiting,
                              .may_admit = may_admit});
  }

  void Preempt() {
    SimSeq& victim = running_.back();
    kv_.Release(victim.pages);
    victim.computed = 0;
    victim.draft = 0;
    waiting_.push_front(std::move(victim));
    running_.pop_back();
    ++preemptions_;
  }

  void Check(const ScheduledStep& step, bool may_admit) {
    const int64_t ran = static_cast<int64_t>(running_.size());
    ASSERT_EQ(static_cast<int64_t>(step.rows.size()), ran);
    int64_t rows = 0;
    for (int64_t i = 0; i < ran; ++i) {
      const SimSeq& seq = running_[i];
      ASSERT_GE(step.rows[i], 0);
      ASSERT_LE(step.rows[i], seq.known - seq.computed + seq.draft);
      ASSERT_LE(step.rows[i], limits_.prefill_chunk + seq.draft);
      rows += step.rows[i];
    }
    for (int64_t admitted : step.admitted) {
      ASSERT_GT(admitted, 0);
      rows += admitted;
    }
    if (!may_admit) {
      ASSERT_TRUE(step.admitted.empty());
    }
    ASSERT_LE(rows, limits_.max_step_tokens);
    ASSERT_LE(ran + static_cast<int64_t>(step.admitted.size()), limits_.max_running);
    // Liveness: the oldest progresses; if nothing runs, something is admitted.
    if (ran > 0) {
      ASSERT_GT(step.rows[0], 0);
    } else if (!waiting_.empty()) {
      ASSERT_FALSE(step.admitted.empty());
    }
  }

  void Apply(const ScheduledStep& step) {
    std::vector<int64_t> rows = step.rows;
    for (int64_t admitted : step.admitted) {
      running_.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
      rows.push_back(admitted);
    }
    for (size_t i = 0; i < rows.size(); ++i) kv_.Cover(running_[i].pages, EndOf(i, rows[i]));
    for (size_t i = 0; i < rows.size(); ++i) Advance(running_[i], rows[i]);
    std::erase_if(running_, [&](SimSeq& seq) {
      if (seq.known < seq.prompt + seq.output) return false;
      kv_.Release(seq.pages);
      ++finished_;
      return true;
    });
  }

  int64_t EndOf(size_t i, int64_t rows) const { return running_[i].computed + rows; }

  void Advance(SimSeq& seq, int64_t rows) {
    const int64_t drafted = std::max<int64_t>(0, seq.computed + rows - seq.known);
    if (seq.computed + rows >= seq.known) {
      seq.known += 1 + (drafted > 0 ? static_cast<int64_t>(random_() % (drafted + 1)) : 0);
      seq.computed = seq.known - 1;
    } else {
      seq.computed += rows;
    }
    kv_.Slide(seq.pages, seq.computed);
  }

  void Account() {
    for (size_t i = 1; i < running_.size(); ++i) ASSERT_LT(running_[i - 1].age, running_[i].age);
    if (!running_.empty() && !waiting_.empty()) {
      ASSERT_LT(running_.back().age, waiting_.front().age);
    }
    for (size_t g = 0; g < kv_.groups().size(); ++g) {
      std::set<int32_t> owned;
      for (const SimSeq& seq : running_) {
        for (int32_t page : seq.pages.tables[g]) {
          if (page != kNoPage) {
            ASSERT_TRUE(owned.insert(page).second) << "page " << page;
          }
        }
      }
      ASSERT_EQ(static_cast<int64_t>(owned.size()) + kv_.available(g), kv_.groups()[g].pages);
    }
    for (const SimSeq& seq : waiting_) ASSERT_EQ(seq.pages.covered, 0);
  }

  SchedulerLimits limits_;
  KvPages kv_;
  std::mt19937_64 random_;
  std::deque<SimSeq> running_, waiting_;
  int64_t next_age_ = 0, preemptions_ = 0, finished_ = 0;
};

// Random traffic over small caches: the checks of Simulation hold after every step, and everything
// ends. The bound on steps: every step advances the oldest by at least one position, and nobody is
// preempted while oldest, so a sequence ends within (positions of all older ones and itself) steps.
TEST(Case093, RandomTrafficAlwaysProgresses) {
  int64_t preemptions = 0;
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    SchedulerLimits limits;
    limits.max_step_tokens = 1 + random() % 300;
    limits.prefill_chunk = 1 + random() % limits.max_step_tokens;
    limits.max_running = 1 + random() % std::min<int64_t>(limits.max_step_tokens, 20);
    const int64_t full = 2 + random() % 30;
    std::vector<PageGroup> groups = {
        {.window = 128, .pages = 3 + static_cast<int64_t>(random() % 12)},
        {.window = 0, .pages = full}};
    Simulation simulation(groups, limits, seed);
    int64_t steps = 0, positions = 0;
    const int64_t arrivals = 5 + random() % 20;
    for (int64_t i = 0; i < arrivals || !simulation.idle(); ++steps) {
      ASSERT_LT(steps, positions + arrivals + 10) << "no end in sight";
      if (i < arrivals && random() % 3 == 0) {
        const int64_t longest = random() % 2 == 0 ? full * kPage * 5 / 4 : 30;
        const int64_t prompt = 1 + random() % longest, output = 1 + random() % 150;
        if (simulation.Add(prompt, output)) positions += prompt + output;
        ++i;
        positions += 1;
      }
      if (i < arrivals) ++positions;  // a step may pass before the next arrival
      if (random() % 20 == 0) simulation.CancelRandom();
      simulation.Step();
      if (testing::Test::HasFatalFailure()) return;
    }
    EXPECT_EQ(simulation.used_pages(), 0);
    preemptions += simulation.preemptions();
  }
  EXPECT_GT(preemptions, 100) << "the caches were too large to test anything";
}

TEST(Case093, WhatCanNeverFitIsKnownBeforehand) {
  const std::vector<PageGroup> groups = {{.window = 128, .pages = 3}, {.window = 0, .pages = 10}};
  EXPECT_TRUE(CanEverFit(groups, kPage, 640));
  EXPECT_FALSE(CanEverFit(groups, kPage, 641));
  const std::vector<PageGroup> narrow = {{.window = 128, .pages = 2}, {.window = 0, .pages = 10}};
  EXPECT_TRUE(CanEverFit(narrow, kPage, 128));
  EXPECT_FALSE(CanEverFit(narrow, kPage, 129));
}

TEST(Scheduler, ChunksOfAPromptShareTheStepWithDecodes) {
  const std::vector<PageGroup> groups = {{.window = 0, .pages = 100}};
  const std::vector<int64_t> one = {1}, none = {0}, free = {98};
  const std::vector<SeqFigures> running = {
      {.known = 10, .computed = 9, .covered = 1, .held = one},
      {.known = 20, .computed = 19, .covered = 1, .held = one}};
  const std::vector<SeqFigures> waiting = {{.known = 500, .held = none}};
  const SchedulerLimits limits = {.max_running = 8, .max_step_tokens = 66, .prefill_chunk = 66};
  const ScheduledStep step = PlanStep(
      limits,
      {.groups = groups, .free = free, .running = running, .waiting = waiting});
  EXPECT_EQ(step.rows, (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(step.admitted, (std::vector<int64_t>{64}));
}

// What waits is admitted only if what runs can still finish its prompt: else they would push each
// other out.
TEST(Scheduler, PagesOfARunningPromptArePromised) {
  const std::vector<PageGroup> groups = {{.window = 0, .pages = 9}};
  const std::vector<int64_t> one = {1}, none = {0};
  const std::vector<SeqFigures> waiting = {{.known = 100, .held = none}};
  const SchedulerLimits limits = {.max_running = 8, .max_step_tokens = 200, .prefill_chunk = 64};
  for (const auto& [known, admits] : {std::pair{384, true}, std::pair{385, false}}) {
    const std::vector<int64_t> free = {7};  // another sequence holds one
    const std::vector<SeqFigures> running = {
        {.known = known, .computed = 64, .covered = 1, .held = one}};
    const ScheduledStep step = PlanStep(limits, {.groups = groups,
                                                 .free = free,
                                                 .running = running,
                                                 .waiting = waiting});
    EXPECT_EQ(step.rows, (std::vector<int64_t>{64}));
    EXPECT_EQ(step.admitted.size(), admits ? 1u : 0u) << known;
  }
}

TEST(Scheduler, TheYoungestIsPreempted) {
  const std::vector<PageGroup> groups = {{.window = 0, .pages = 4}};
  const std::vector<int64_t> one = {1}, two = {2}, none = {0};
  std::vector<int64_t> free = {0};
  std::vector<SeqFigures> running = {{.known = 65, .computed = 64, .covered = 1, .held = one},
                                     {.known = 70, .computed = 69, .covered = 2, .held = two},
                                     {.known = 11, .computed = 10, .covered = 1, .held = one}};
  const SchedulerLimits limits = {.max_running = 8, .max_step_tokens = 66, .prefill_chunk = 66};
  const auto plan = [&] {
    return PlanStep(
        limits,
        {.groups = groups, .free = free, .running = running, .waiting = {}});
  };
  EXPECT_TRUE(plan().preempt);
  running.pop_back();
  free = {1};
  EXPECT_FALSE(plan().preempt);
  EXPECT_EQ(plan().rows, (std::vector<int64_t>{1, 1}));
}

// A cached beginning costs what nobody uses of it, and leaves only the rest to compute.
TEST(Scheduler, ReuseCostsWhatNobodyUses) {
  const std::vector<PageGroup> groups = {{.window = 0, .pages = 12}};
  const std::vector<int64_t> one = {1}, eight = {8};
  const std::vector<SeqFigures> running = {{.known = 10, .computed = 9, .covered = 1, .held = one}};
  const SchedulerLimits limits = {.max_running = 8, .max_step_tokens = 200, .prefill_chunk = 200};
  for (const auto& [cost, admits] : {std::pair<int64_t, bool>{8, true}, {9, false}}) {
    const std::vector<int64_t> free = {10}, reuse = {cost};
    const std::vector<SeqFigures> waiting = {
        {.known = 600, .computed = 512, .covered = 8, .held = eight, .reuse_cost = reuse}};
    const ScheduledStep step = PlanStep(limits, {.groups = groups,
                                                 .free = free,
                                                 .running = running,
                                                 .waiting = waiting});
    EXPECT_EQ(step.admitted, admits ? (std::vector<int64_t>{88}) : std::vector<int64_t>()) << cost;
  }
}

TEST(Scheduler, DraftsDisplaceNobody) {
  const std::vector<PageGroup> groups = {{.window = 0, .pages = 2}};
  const std::vector<int64_t> one = {1}, free = {0};
  const std::vector<SeqFigures> running = {
      {.known = 63, .computed = 62, .draft = 5, .covered = 1, .held = one},
      {.known = 9, .computed = 8, .draft = 5, .covered = 1, .held = one}};
  const SchedulerLimits limits = {.max_running = 2, .max_step_tokens = 6, .prefill_chunk = 6};
  const ScheduledStep step = PlanStep(
      limits,
      {.groups = groups, .free = free, .running = running, .waiting = {}});
  EXPECT_EQ(step.rows, (std::vector<int64_t>{2, 4}));  // the first: one draft fits its page
}

}  // namespace
}  // namespace rose
