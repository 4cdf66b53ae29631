#include "engine/plan_inputs.h"

namespace rose {

void PlanInputs::Fill(const StepPlan& plan) {
  tokens.clear();
  positions.clear();
  logit_rows.clear();
  fed.clear();
  seqs.resize(plan.seqs.size());  // those that are there keep the memory of their tables
  for (size_t i = 0; i < plan.seqs.size(); ++i) {
    const SeqPlan& seq = plan.seqs[i];
    const int64_t rows = std::ssize(seq.tokens);
    const int64_t first = std::ssize(tokens);
    seqs[i].first_row = first;
    seqs[i].rows = rows;
    seqs[i].start = seq.start;
    seqs[i].pages.assign(seq.pages.begin(), seq.pages.end());
    tokens.insert(tokens.end(), seq.tokens.begin(), seq.tokens.end());
    for (int64_t row = 0; row < rows; ++row) {
      positions.push_back(static_cast<int32_t>(seq.start + row));
    }
    for (int64_t row = 0; row < seq.scored; ++row) {
      logit_rows.push_back(static_cast<int32_t>(first + seq.score_from - seq.start + row));
    }
    for (int64_t left = seq.samples; left > 0; --left) {
      logit_rows.push_back(static_cast<int32_t>(std::ssize(tokens) - left));
    }
  }
}

}  // namespace rose
