#include "simulator/step_costs.h"

#include <gtest/gtest.h>

#include <cmath>

namespace rose {
namespace {

// A machine that is bound by reading until 64 rows, and by computing from there.
double TimeOf(const StepShape& shape) {
  const auto rows = static_cast<double>(shape.decode_rows + shape.prompt_rows);
  return 2 + std::max(0.0, rows - 64) * 0.1 + 0.01 * static_cast<double>(shape.sampled_rows) +
         1e-5 * static_cast<double>(shape.decode_keys) +
         3e-6 * static_cast<double>(shape.prompt_keys);
}

std::vector<MeasuredStep> Measured() {
  std::vector<MeasuredStep> steps;
  const auto add = [&](StepShape shape) { steps.push_back({shape, TimeOf(shape)}); };
  for (int64_t rows = 1; rows <= 256; rows *= 2) {
    for (int64_t context : {64, 1000}) {
      add({.decode_rows = rows, .sampled_rows = rows, .decode_keys = rows * context});
      add({.prompt_rows = rows, .prompt_keys = rows * context});
    }
  }
  return steps;
}

TEST(StepCosts, PredictsStepsThatWereNotMeasured) {
  const StepCosts costs = StepCosts::Fit(Measured()).value();
  EXPECT_LT(costs.MeanError(Measured()), 0.001);
  for (const StepShape& shape : {
           StepShape{.decode_rows = 3, .sampled_rows = 3, .decode_keys = 900},
           StepShape{.decode_rows = 100, .sampled_rows = 100, .decode_keys = 30'000},
           StepShape{.decode_rows = 30,
                     .prompt_rows = 200,
                     .sampled_rows = 31,
                     .decode_keys = 9000,
                     .prompt_keys = 100'000},
           // Beyond what was measured the last slope goes on.
           StepShape{.prompt_rows = 1000, .prompt_keys = 500'000},
       }) {
    EXPECT_NEAR(costs.Milliseconds(shape) / TimeOf(shape), 1, 0.01) << TimeOf(shape);
  }
}

TEST(StepCosts, IsRobustAgainstNoiseAndNeverNegative) {
  std::vector<MeasuredStep> steps = Measured();
  for (size_t i = 0; i < steps.size(); ++i) steps[i].ms *= 0.95 + 0.05 * static_cast<double>(i % 3);
  const StepCosts costs = StepCosts::Fit(steps).value();
  double before = 0;
  for (int64_t rows = 1; rows <= 600; rows += 13) {
    const StepShape shape{.decode_rows = rows, .sampled_rows = rows, .decode_keys = rows * 500};
    const double ms = costs.Milliseconds(shape);
    EXPECT_NEAR(ms / TimeOf(shape), 1, 0.1);
    EXPECT_GE(ms, before);  // more is never faster
    before = ms;
  }
}

TEST(StepCosts, OneStepIsEnough) {
  const std::vector<MeasuredStep> one = {
      {{.decode_rows = 8, .sampled_rows = 8, .decode_keys = 800}, 4.0}};
  const StepCosts costs = StepCosts::Fit(one).value();
  EXPECT_NEAR(costs.Milliseconds(one[0].shape), 4, 1e-6);
  EXPECT_FALSE(StepCosts::Fit({}).ok());
  const std::vector<MeasuredStep> no_time = {{{.decode_rows = 8}, 0}};
  EXPECT_FALSE(StepCosts::Fit(no_time).ok());
}

TEST(StepCosts, AShapeIsWhatAPlanComputes) {
  std::vector<int32_t> history(200);
  StepPlan plan;
  SeqPlan& decode = plan.seqs.emplace_back();
  decode.start = 99;
  decode.tokens = std::span(history).first(1);
  decode.samples = 1;
  SeqPlan& chunk = plan.seqs.emplace_back();
  chunk.start = 10;
  chunk.tokens = std::span(history).first(3);
  const StepShape shape = ShapeOf(plan);
  EXPECT_EQ(shape.decode_rows, 1);
  EXPECT_EQ(shape.decode_keys, 100);
  EXPECT_EQ(shape.prompt_rows, 3);
  EXPECT_EQ(shape.prompt_keys, 11 + 12 + 13);
  EXPECT_EQ(shape.sampled_rows, 1);
}

}  // namespace
}  // namespace rose
