// Sampler: from a row of logits to a token.
//
// In this order: logit bias is added; repetition penalty (prompt and output), then frequency and
// presence penalty (output only). What the constraint's mask, the forbidden ids, the allowed ids or
// a bad word excludes goes; where that is everything, the mask alone counts. Temperature 0 takes
// the largest then.
// Otherwise logits are divided by the temperature; min_p drops what is less likely than min_p times
// the most likely; top_k keeps the k most likely; top_p keeps the fewest of these, most likely
// first, whose share of their sum is at least top_p; one is drawn (draw.h). Equal logits rank by
// lower id. Meanings are those of the OpenAI API and of vLLM.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/cpu.h"
#include "base/draw.h"
#include "base/status.h"
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
  std::span<const uint32_t> mask;  // as TokenConstraint::Allowed gives it; empty = all tokens
};

bool HasPenalty(const SamplingParams& params);
// The numbers of a draw at `position`; inverse_temperature is 0 where the largest logit is taken.
DrawRule DrawRuleOf(const SamplingParams& params, uint64_t seed, int64_t position);
// Forbidden ids, and the last ids of bad words whose beginning the output ends with; ids may
// repeat.
std::vector<int32_t> ExcludedIds(const SampleRow& row);
// Why a draw failed: all logits are NaN, minus infinity or excluded.
std::string NothingToDraw(RequestId id, int64_t position);

// Keeps scratch memory between draws; a thread of its own needs a sampler of its own.
class Sampler {
 public:
  // A pure function of the row. kInternal if no token is left to draw, since all logits are NaN or
  // all ids excluded.
  Result<SampledToken> Draw(const SampleRow& row);
  // Logprobs of `id` and of the `top` most likely under logits [vocab]. kInternal if all are NaN.
  Result<SampledToken> Score(std::span<const float> logits, int32_t id, int64_t top);

 private:
  struct Candidate {
    float logit = 0;
    int32_t id = 0;
    uint64_t weight = 0;  // of the draw
  };

  void Adjust(const SampleRow& row);
  void Exclude(const SampleRow& row);
  void KeepOnly(std::span<const int32_t> ids);
  void KeepMask(std::span<const uint32_t> mask);
  void Penalise(const SampleRow& row);
  int32_t Pick(const DrawRule& rule, float largest);
  int32_t PickFromAll(const DrawRule& rule, float largest);
  int32_t PickFromFew(const DrawRule& rule, float largest);
  void KeepTopP(double top_p);
  void AddLogprobs(std::span<const float> logits, int64_t top, SampledToken& token,
                   std::span<const int32_t> also);
  void KeepMostLikely(std::span<const float> logits, int64_t top);

  const CpuIsa isa_ = DetectCpuIsa();
  std::vector<float> logits_;      // [vocab] adjusted
  std::vector<uint64_t> weights_;  // [vocab]
  std::vector<float> largest_;     // [blocks of the vocabulary], as LargestOfBlocks has them
  std::vector<Candidate> candidates_;
  std::vector<int32_t> counts_;  // [vocab] 1 + occurrences in the output, or 0; all 0 between draws
  std::vector<int32_t> touched_;  // ids with a count
};

}  // namespace rose
