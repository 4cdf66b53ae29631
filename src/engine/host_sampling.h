// HostSampling: from a sequence's rows of logits in host memory to its share of a step's result.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "engine/sampler.h"
#include "request/step_plan.h"

namespace rose {

// What the draw at `position` needs, but for logits; asks the constraint, whose error it returns.
Result<SampleRow> SampleRowOf(const SeqPlan& seq, int64_t position);

class HostSampling {
 public:
  // `rows` are the logits [seq.scored + seq.samples, vocab].
  SeqResult Run(const SeqPlan& seq, std::span<const float> rows, int64_t vocab);

 private:
  // Add one row's outcome to a sequence's results; logits [vocab].
  void Score(const SeqPlan& seq, std::span<const float> logits, SeqResult& own);
  void Draw(const SeqPlan& seq, int64_t position, std::span<const float> logits, SeqResult& own);

  Sampler sampler_;
};

}  // namespace rose
