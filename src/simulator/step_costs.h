// StepCosts: how long a step takes on some machine, from steps that were measured there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "request/step_plan.h"

namespace rose {

// What of a step decides how long it takes. Keys are those of a full layer, summed over rows: what
// sliding layers reach hardly varies, and so is a part of what a row costs.
struct StepShape {
  int64_t decode_rows = 0;   // sequences that compute one token
  int64_t prompt_rows = 0;   // tokens of the others
  int64_t sampled_rows = 0;  // rows with logits
  int64_t decode_keys = 0;   // that the rows of each kind attend to
  int64_t prompt_keys = 0;
};

StepShape ShapeOf(const StepPlan& plan);

struct MeasuredStep {
  StepShape shape;
  double ms = 0;
};

// time = fixed + f(rows) + a * sampled_rows + b * decode_keys + c * prompt_keys, f rising and
// linear between the numbers of rows that were measured: a step reads all weights whatever it
// computes, and of experts more with every row until all are in use, so no single slope would do.
// No term is ever negative. What fits the measured steps best, errors taken relative to their
// times.
class StepCosts {
 public:
  // kInvalidArgument without a step, or if one has no rows or takes no time.
  static Result<StepCosts> Fit(std::span<const MeasuredStep> steps);
  // The same time for every step.
  static StepCosts Constant(double ms);

  double Milliseconds(const StepShape& shape) const;
  // Mean of |time by the fit / measured time - 1|.
  double MeanError(std::span<const MeasuredStep> steps) const;

 private:
  // What the coefficients are multiplied with.
  std::vector<double> Terms(const StepShape& shape) const;

  std::vector<double> knots_;         // rows, ascending
  std::vector<double> coefficients_;  // as Terms has them
};

}  // namespace rose
