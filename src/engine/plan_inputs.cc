#include "engine/plan_inputs.h"

namespace rose {

void PlanInputs::Fill(const StepPlan& plan) {
  tokens.clear();
  positions.clear();
  logit_rows.clear();
  seqs.clear();
  fed.clear();
  for (const SeqPlan& seq : plan.seqs) {
    const int64_t rows = std::ssize(seq.tokens);
    const int64_t first = std::ssize(tokens);
    seqs.push_back({.first_row = first,
                    .rows = rows,
                    .start = seq.start,
                    .pages = {seq.pages.begin(), seq.pages.end()}});
    tokens.insert(tokens.end(), seq.tokens.begin(), seq.tokens.end());
    for (int64_t i = 0; i < rows; ++i) positions.push_back(static_cast<int32_t>(seq.start + i));
    for (int64_t i = 0; i < seq.scored; ++i) {
      logit_rows.push_back(static_cast<int32_t>(first + seq.score_from - seq.start + i));
    }
    for (int64_t i = seq.samples; i > 0; --i) {
      logit_rows.push_back(static_cast<int32_t>(std::ssize(tokens) - i));
    }
  }
}

}  // namespace rose
