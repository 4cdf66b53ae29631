#include "engine/host_sampling.h"

#include <utility>

#include "base/check.h"

namespace rose {

Result<SampleRow> SampleRowOf(const SeqPlan& seq, int64_t position) {
  SampleRow row;
  row.id = seq.id;
  row.params = seq.sampling;
  row.seed = seq.seed;
  row.history = seq.history.first(position);
  row.prompt_tokens = seq.prompt_tokens;
  if (position < seq.forbidden_until) row.forbidden_ids = seq.forbidden_ids;
  if (seq.constraint != nullptr) {
    ROSE_ASSIGN_OR_RETURN(row.mask,
                          seq.constraint->Allowed(row.history.subspan(seq.prompt_tokens)));
  }
  return row;
}

SeqResult HostSampling::Run(const SeqPlan& seq, std::span<const float> rows, int64_t vocab) {
  ROSE_CHECK_EQ(std::ssize(rows), (seq.scored + seq.samples) * vocab);
  SeqResult own;
  int64_t row = 0;
  const auto next_row = [&] { return rows.subspan(row++ * vocab, vocab); };
  for (int64_t i = 0; i < seq.scored && own.error.empty(); ++i) Score(seq, next_row(), own);
  for (int64_t i = 0; i < seq.samples && own.error.empty(); ++i) {
    const int64_t position = std::ssize(seq.history) - seq.samples + 1 + i;
    Draw(seq, position, next_row(), own);
    // Draws behind a rejected draft do not count, and a constraint need not know what it says.
    if (i + 1 < seq.samples && own.error.empty() &&
        own.sampled.back().id != seq.history[position]) {
      break;
    }
  }
  return own;
}

void HostSampling::Score(const SeqPlan& seq, std::span<const float> logits, SeqResult& own) {
  const int64_t position = seq.score_from + std::ssize(own.scored);
  Result<SampledToken> token = sampler_.Score(logits, seq.history[position + 1], seq.score_top);
  if (token.ok()) {
    own.scored.push_back(std::move(*token));
  } else {
    own.error = StrCat("request ", seq.id, ": position ", position, ": ", token.status().message());
  }
}

// Draws the token at `position`.
void HostSampling::Draw(const SeqPlan& seq, int64_t position, std::span<const float> logits,
                        SeqResult& own) {
  Result<SampleRow> row = SampleRowOf(seq, position);
  if (!row.ok()) {
    own.error = row.status().message();
    return;
  }
  row->logits = logits;
  Result<SampledToken> token = sampler_.Draw(*row);
  if (token.ok()) {
    own.sampled.push_back(std::move(*token));
  } else {
    own.error = token.status().message();
  }
}

}  // namespace rose
