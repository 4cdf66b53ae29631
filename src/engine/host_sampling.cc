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
  Score(seq, rows.first(seq.scored * vocab), vocab, own);
  for (int64_t i = 0; i < seq.samples && own.error.empty(); ++i) {
    const int64_t position = std::ssize(seq.history) - seq.samples + 1 + i;
    Draw(seq, position, rows.subspan((seq.scored + i) * vocab, vocab), own);
    // Draws behind a rejected draft do not count, and a constraint need not know what it says.
    if (i + 1 < seq.samples && own.error.empty() &&
        own.sampled.back().id != seq.history[position]) {
      break;
    }
  }
  return own;
}

void HostSampling::Score(const SeqPlan& seq, std::span<const float> rows, int64_t vocab,
                         SeqResult& own) {
  std::vector<SampledToken> tokens(seq.scored);
  std::vector<Status> statuses(seq.scored);
  pool_.Run(seq.scored, [&](int64_t row, int thread) {
    const int32_t id = seq.history[seq.score_from + row + 1];
    Result<SampledToken> token =
        samplers_[thread].Score(rows.subspan(row * vocab, vocab), id, seq.score_top);
    statuses[row] = token.status();
    if (token.ok()) tokens[row] = std::move(*token);
  });
  for (int64_t row = 0; row < seq.scored; ++row) {
    if (!statuses[row].ok()) {
      own.error = StrCat("request ", seq.id, ": position ", seq.score_from + row, ": ",
                         statuses[row].message());
      return;
    }
    own.scored.push_back(std::move(tokens[row]));
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
  Result<SampledToken> token = samplers_.front().Draw(*row);
  if (token.ok()) {
    own.sampled.push_back(std::move(*token));
  } else {
    own.error = token.status().message();
  }
}

}  // namespace rose
