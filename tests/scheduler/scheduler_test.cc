#include "scheduler/scheduler.h"

#include <gtest/gtest.h>

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
  const ScheduledStep step =
      PlanStep(limits, {.groups = groups, .free = free, .running = running, .waiting = waiting});
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
    const ScheduledStep step =
        PlanStep(limits, {.groups = groups, .free = free, .running = running, .waiting = waiting});
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
    return PlanStep(limits, {.groups = groups, .free = free, .running = running, .waiting = {}});
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
    const ScheduledStep step =
        PlanStep(limits, {.groups = groups, .free = free, .running = running, .waiting = waiting});
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
  const ScheduledStep step =
      PlanStep(limits, {.groups = groups, .free = free, .running = running, .waiting = {}});
  EXPECT_EQ(step.rows, (std::vector<int64_t>{2, 4}));  // the first: one draft fits its page
}

}  // namespace
}  // namespace rose
