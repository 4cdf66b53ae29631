// HostSampling: from a sequence's rows of logits in host memory to its share of a step's result.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/thread_pool.h"
#include "engine/sampler.h"
#include "request/step_plan.h"

namespace rose {

// What the draw at `position` needs, but for logits; asks the constraint, whose error it returns.
Result<SampleRow> SampleRowOf(const SeqPlan& seq, int64_t position);

class HostSampling {
 public:
  // `threads` look at the rows of a prompt that are scored; 1 = the caller's.
  explicit HostSampling(int threads = 1) : pool_(threads), samplers_(threads) {}

  // `rows` are the logits [seq.scored + seq.samples, vocab].
  SeqResult Run(const SeqPlan& seq, std::span<const float> rows, int64_t vocab);

 private:
  // Adds the scored rows' outcomes to a sequence's results, up to the first that fails.
  void Score(const SeqPlan& seq, std::span<const float> rows, int64_t vocab, SeqResult& own);
  // Adds one row's; logits [vocab].
  void Draw(const SeqPlan& seq, int64_t position, std::span<const float> logits, SeqResult& own);

  ThreadPool pool_;
  std::vector<Sampler> samplers_;  // one for each thread
};

}  // namespace rose
