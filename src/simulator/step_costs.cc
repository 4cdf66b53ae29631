#include "simulator/step_costs.h"

#include <algorithm>
#include <cmath>

namespace rose {
namespace {

// Measured numbers of rows that differ by less than this factor share one piece of the curve.
constexpr double kKnotRatio = 1.3;
constexpr size_t kOtherTerms = 4;  // fixed, sampled, keys of decodes, keys of prompts

// The x >= 0 that minimises |A x - b|, given A'A and A'b: one coordinate after the other, each set
// to its best. The columns of A have length 1 or are empty.
std::vector<double> SolveNonNegative(const std::vector<std::vector<double>>& gram,
                                     const std::vector<double>& target) {
  constexpr int kSweeps = 20'000;
  std::vector<double> x(target.size(), 0);
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    double change = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      if (gram[i][i] == 0) continue;
      double gradient = target[i];
      for (size_t j = 0; j < x.size(); ++j) gradient -= gram[i][j] * x[j];
      const double next = std::max(0.0, x[i] + gradient / gram[i][i]);
      change = std::max(change, std::abs(next - x[i]));
      x[i] = next;
    }
    if (change < 1e-12) break;
  }
  return x;
}

std::vector<double> KnotsOf(std::span<const MeasuredStep> steps) {
  std::vector<double> rows;
  for (const MeasuredStep& step : steps) {
    rows.push_back(static_cast<double>(step.shape.decode_rows + step.shape.prompt_rows));
  }
  std::sort(rows.begin(), rows.end());
  std::vector<double> knots;
  for (double row : rows) {
    if (knots.empty() || row >= knots.back() * kKnotRatio) knots.push_back(row);
  }
  return knots;
}

}  // namespace

StepShape ShapeOf(const StepPlan& plan) {
  StepShape shape;
  for (const SeqPlan& seq : plan.seqs) {
    const int64_t rows = std::ssize(seq.tokens);
    // The row at position p attends to p + 1 keys.
    const int64_t keys = rows * seq.start + rows * (rows + 1) / 2;
    (rows == 1 ? shape.decode_rows : shape.prompt_rows) += rows;
    (rows == 1 ? shape.decode_keys : shape.prompt_keys) += keys;
    shape.sampled_rows += seq.samples + seq.scored;
  }
  return shape;
}

Result<StepCosts> StepCosts::Fit(std::span<const MeasuredStep> steps) {
  if (steps.empty()) return InvalidArgument("there is no measured step");
  for (const MeasuredStep& step : steps) {
    if (step.shape.decode_rows + step.shape.prompt_rows < 1 || !(step.ms > 0)) {
      return InvalidArgument("a measured step needs rows and a time above 0");
    }
  }
  StepCosts costs;
  costs.knots_ = KnotsOf(steps);
  std::vector<std::vector<double>> terms;
  for (const MeasuredStep& step : steps) {
    terms.push_back(costs.Terms(step.shape));
    for (double& term : terms.back()) term /= step.ms;
  }
  const size_t width = terms.front().size();
  std::vector<double> scale(width, 0);
  for (const auto& row : terms) {
    for (size_t i = 0; i < width; ++i) scale[i] += row[i] * row[i];
  }
  for (double& one : scale) one = one > 0 ? 1 / std::sqrt(one) : 0;
  std::vector<std::vector<double>> gram(width, std::vector<double>(width, 0));
  std::vector<double> target(width, 0);
  for (const auto& row : terms) {
    for (size_t i = 0; i < width; ++i) {
      target[i] += row[i] * scale[i];
      for (size_t j = 0; j < width; ++j) gram[i][j] += row[i] * scale[i] * row[j] * scale[j];
    }
  }
  costs.coefficients_ = SolveNonNegative(gram, target);
  for (size_t i = 0; i < width; ++i) costs.coefficients_[i] *= scale[i];
  return costs;
}

StepCosts StepCosts::Constant(double ms) {
  StepCosts costs;
  costs.coefficients_ = {ms, 0, 0, 0};
  return costs;
}

std::vector<double> StepCosts::Terms(const StepShape& shape) const {
  std::vector<double> terms = {1, static_cast<double>(shape.sampled_rows),
                               static_cast<double>(shape.decode_keys),
                               static_cast<double>(shape.prompt_keys)};
  // What lies of the rows between each knot and the next; the last piece goes on for ever.
  const auto rows = static_cast<double>(shape.decode_rows + shape.prompt_rows);
  for (size_t i = 0; i + 1 < knots_.size(); ++i) {
    const double end = i + 2 < knots_.size() ? std::min(rows, knots_[i + 1]) : rows;
    terms.push_back(std::max(0.0, end - knots_[i]));
  }
  return terms;
}

double StepCosts::Milliseconds(const StepShape& shape) const {
  double ms = coefficients_[0] + coefficients_[1] * static_cast<double>(shape.sampled_rows) +
              coefficients_[2] * static_cast<double>(shape.decode_keys) +
              coefficients_[3] * static_cast<double>(shape.prompt_keys);
  const auto rows = static_cast<double>(shape.decode_rows + shape.prompt_rows);
  for (size_t i = 0; i + 1 < knots_.size() && rows > knots_[i]; ++i) {
    const double end = i + 2 < knots_.size() ? std::min(rows, knots_[i + 1]) : rows;
    ms += coefficients_[kOtherTerms + i] * (end - knots_[i]);
  }
  return ms;
}

double StepCosts::MeanError(std::span<const MeasuredStep> steps) const {
  double sum = 0;
  for (const MeasuredStep& step : steps) sum += std::abs(Milliseconds(step.shape) / step.ms - 1);
  return sum / static_cast<double>(std::max<size_t>(1, steps.size()));
}

}  // namespace rose
