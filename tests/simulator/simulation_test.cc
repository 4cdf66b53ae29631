#include "simulator/simulation.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "load/load_report.h"

namespace rose {
namespace {

// A machine like a small GPU: a fixed part, and a bit for every row and key.
StepCosts Machine() {
  std::vector<MeasuredStep> steps;
  for (int64_t rows = 1; rows <= 2048; rows *= 2) {
    const double ms = 5 + 0.02 * static_cast<double>(rows);
    steps.push_back({{.prompt_rows = rows}, ms});
  }
  return StepCosts::Fit(steps).value();
}

SimulationSetup Engines() {
  SimulationSetup setup;
  setup.engine.max_running = 32;
  setup.engine.max_waiting = 1'000'000;
  setup.engine.max_step_tokens = 512;
  setup.executor.vocab = 1000;
  setup.executor.max_positions = 1 << 16;
  setup.executor.kv.groups = {{.window = 128, .layers = {0}}, {.window = 0, .layers = {1}}};
  setup.executor.kv.kv_heads = setup.executor.kv.head_dim = 1;
  setup.executor.pages = {1000, 1000};
  return setup;
}

TraceOptions ManyUsers() {
  return {.requests = 400,
          .rate = 20,
          .input = Lengths::Parse("50:600").value(),
          .output = Lengths::Parse("20:80").value(),
          .prefixes = 5,
          .prefix_tokens = 200,
          .prefix_share = 0.6};
}

SimulationResult RunTrace(const SimulationSetup& setup, const std::vector<TraceRequest>& trace) {
  return Simulate(Machine(), setup, trace, [](int64_t) {});
}

TEST(Simulation, EveryRequestGetsAllItsTokensInOrder) {
  SimulationSetup setup = Engines();
  const auto trace = MakeTrace(ManyUsers());
  for (const auto& [pages, pipeline] : std::vector<std::pair<int64_t, bool>>{
           {1000, false}, {1000, true}, {60, false}, {60, true}}) {  // 60: many are preempted
    setup.executor.pages = {pages, pages};
    setup.engine.pipeline = pipeline;
    const SimulationResult result = RunTrace(setup, trace);
    ASSERT_EQ(result.records.size(), trace.size());
    for (size_t i = 0; i < trace.size(); ++i) {
      const LoadRecord& record = result.records[i];
      EXPECT_EQ(record.error, "");
      EXPECT_EQ(record.sent_s, trace[i].at_s);
      EXPECT_EQ(record.prompt_tokens, trace[i].prompt_tokens);
      EXPECT_EQ(record.completion_tokens, trace[i].output_tokens);
      EXPECT_EQ(std::ssize(record.token_s), trace[i].output_tokens);
      EXPECT_TRUE(std::is_sorted(record.token_s.begin(), record.token_s.end()));
      EXPECT_GT(record.token_s.front(), record.sent_s);
      EXPECT_EQ(record.done_s, record.token_s.back());
    }
    EXPECT_EQ(result.refused, 0);
    EXPECT_EQ(result.preemptions > 0, pages == 60);
    EXPECT_LE(result.most_pages[0], pages);
    EXPECT_GT(result.most_pages[1], 10);
  }
}

TEST(Simulation, TheSameTraceGivesTheSameTimes) {
  SimulationSetup setup = Engines();
  setup.replicas = 3;
  setup.router = Router::kPrefixAffine;
  const auto first = RunTrace(setup, MakeTrace(ManyUsers()));
  const auto second = RunTrace(setup, MakeTrace(ManyUsers()));
  EXPECT_EQ(ReportJson(ReportOf(first.records)), ReportJson(ReportOf(second.records)));
  EXPECT_EQ(first.steps, second.steps);
  TraceOptions other = ManyUsers();
  other.seed = 2;
  EXPECT_NE(ReportJson(ReportOf(first.records)),
            ReportJson(ReportOf(RunTrace(setup, MakeTrace(other)).records)));
}

// One place, one token a request, each taking 10 ms: the queue M/D/1, whose mean wait is
// rho / (2 - 2 rho) service times.
TEST(Simulation, ASingleServerWaitsAsTheQueueTheorySays) {
  SimulationSetup setup = Engines();
  setup.engine.max_running = 1;
  for (const double rho : {0.3, 0.6, 0.8}) {
    const TraceOptions options{.requests = 40'000, .rate = rho * 100};
    const SimulationResult result =
        Simulate(StepCosts::Constant(10), setup, MakeTrace(options), [](int64_t) {});
    const LoadReport report = ReportOf(result.records);
    const double wait_ms = report.answer_ms.mean - 10;
    EXPECT_NEAR(wait_ms / (10 * rho / (2 - 2 * rho)), 1, 0.05) << rho;
    EXPECT_EQ(result.steps, 40'000);
    EXPECT_NEAR(result.busy_s, 400, 1e-6);
  }
}

TEST(Simulation, MoreReplicasAreNotSlower) {
  SimulationSetup setup = Engines();
  TraceOptions options = ManyUsers();
  options.rate = 60;
  const auto trace = MakeTrace(options);
  for (const Router router : {Router::kRoundRobin, Router::kLeastLoaded, Router::kPrefixAffine}) {
    setup.router = router;
    double before = 1e9;
    for (const int64_t replicas : {1, 2, 4, 8}) {
      setup.replicas = replicas;
      const double mean = ReportOf(RunTrace(setup, trace).records).answer_ms.mean;
      EXPECT_LE(mean, before * 1.01) << replicas << " replicas";
      before = mean;
    }
  }
}

TEST(Simulation, RoutersDoWhatTheyAreFor) {
  SimulationSetup setup = Engines();
  setup.replicas = 4;
  TraceOptions options = ManyUsers();
  options.rate = 30;
  options.prefixes = 40;
  options.prefix_tokens = 1000;
  options.prefix_share = 1;
  const auto trace = MakeTrace(options);
  const auto hits = [&](Router router) {
    setup.router = router;
    const SimulationResult result = RunTrace(setup, trace);
    return static_cast<double>(result.prefix_hits) / static_cast<double>(result.prefix_queries);
  };
  EXPECT_GT(hits(Router::kPrefixAffine), hits(Router::kRoundRobin) + 0.1);
  // Every fourth request is large: in turn they would all meet on one replica.
  std::vector<TraceRequest> uneven;
  for (int64_t i = 0; i < 400; ++i) {
    uneven.push_back({.at_s = static_cast<double>(i) * 0.02,
                      .prompt_tokens = i % 4 == 0 ? 2000 : 20,
                      .output_tokens = i % 4 == 0 ? 200 : 5});
  }
  const auto mean = [&](Router router) {
    setup.router = router;
    return ReportOf(RunTrace(setup, uneven).records).answer_ms.mean;
  };
  EXPECT_LT(mean(Router::kLeastLoaded), 0.8 * mean(Router::kRoundRobin));
}

TEST(Simulation, WhatTheEngineWouldRefuseIsRefused) {
  SimulationSetup setup = Engines();
  setup.engine.max_running = 2;
  setup.engine.max_waiting = 3;
  std::vector<TraceRequest> trace(10, {.prompt_tokens = 10, .output_tokens = 5});
  trace.push_back({.at_s = 100, .prompt_tokens = 1 << 17, .output_tokens = 5});
  const SimulationResult result = RunTrace(setup, trace);
  EXPECT_EQ(result.refused, 6);
  EXPECT_EQ(result.records[4].error, "");
  EXPECT_EQ(result.records[5].error, "all places are taken");
  EXPECT_NE(result.records[10].error, "");
}

}  // namespace
}  // namespace rose
