// Sampler: from a row of logits to a token.
//
// In this order: forbidden ids go; logit bias is added; repetition penalty (prompt and output),
// then frequency and presence penalty (output only). Temperature 0 takes the largest then.
// Otherwise logits are divided by the temperature; min_p drops what is less likely than min_p times
// the most likely; top_k keeps the k most likely; top_p keeps the fewest of these, most likely
// first, whose share of their sum is at least top_p; one is drawn (draw.h). Equal logits rank by
// lower id. Meanings are those of the OpenAI API and of vLLM.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "request/request.h"

namespace rose {

// One row to draw from.
struct SampleRow {
  RequestId id = 0;  // for messages
  // [vocab]. NaN is never drawn; infinities count as the largest and smallest numbers.
  std::span<const float> logits;
  const SamplingParams* params = nullptr;
  uint64_t seed = 0;
  std::span<const int32_t> history;  // prompt and output; the draw's position is its size
  int64_t prompt_tokens = 0;         // how much of history is the prompt
  std::span<const int32_t> forbidden_ids;
};

// Keeps scratch memory between draws; a thread of its own needs a sampler of its own.
class Sampler {
 public:
  // A pure function of the row. If no token can be drawn, since all logits are NaN, that is our
  // bug.
  SampledToken Draw(const SampleRow& row);

 private:
  struct Candidate {
    float logit = 0;
    int32_t id = 0;
    uint64_t weight = 0;  // of the draw
  };

  void Adjust(const SampleRow& row);
  void Penalise(const SampleRow& row);
  int32_t Pick(const SampleRow& row, int32_t best);
  int32_t PickFromAll(const SampleRow& row, float largest);
  int32_t PickFromFew(const SampleRow& row, float largest);
  void KeepTopP(double top_p);
  void AddLogprobs(const SampleRow& row, SampledToken& token);

  std::vector<float> logits_;      // [vocab] adjusted
  std::vector<uint64_t> weights_;  // [vocab]
  std::vector<Candidate> candidates_;
  std::vector<int32_t> counts_;  // [vocab] 1 + occurrences in the output, or 0; all 0 between draws
  std::vector<int32_t> touched_;  // ids with a count
};

}  // namespace rose
