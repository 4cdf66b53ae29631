#include "engine/sampler.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/draw.h"
#include "engine/logit_sums.h"

namespace rose {
namespace {

// Below this a temperature only asks for the largest logit, and 1 / temperature would overflow.
constexpr double kGreedyTemperature = 1e-5;

// Index of the largest, the lowest of equals.
int32_t Largest(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// Orders candidates by falling logit, then by id.
constexpr auto kMoreLikely = [](const auto& a, const auto& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
};

}  // namespace

bool HasPenalty(const SamplingParams& p) {
  return p.presence_penalty != 0 || p.frequency_penalty != 0 || p.repetition_penalty != 1;
}

DrawRule DrawRuleOf(const SamplingParams& p, uint64_t seed, int64_t position) {
  const bool is_greedy = p.temperature < kGreedyTemperature;
  return {.inverse_temperature = is_greedy ? 0.0f : static_cast<float>(1.0 / p.temperature),
          .min_p_bound = p.min_p > 0 ? static_cast<float>(std::log(p.min_p)) : kExcludedLogit,
          .top_k = p.top_k,
          .top_p = p.top_p,
          .word = DrawWord(seed, position),
          .repetition_penalty = static_cast<float>(p.repetition_penalty),
          .frequency_penalty = static_cast<float>(p.frequency_penalty),
          .presence_penalty = static_cast<float>(p.presence_penalty)};
}

std::vector<int32_t> ExcludedIds(const SampleRow& row) {
  std::vector<int32_t> ids(row.forbidden_ids.begin(), row.forbidden_ids.end());
  const std::span<const int32_t> output =
      row.history.subspan(std::min<size_t>(row.prompt_tokens, row.history.size()));
  for (const std::vector<int32_t>& word : row.params->bad_words) {
    const std::span<const int32_t> begin(word.data(), word.size() - 1);
    if (begin.size() > output.size()) continue;
    if (std::ranges::equal(begin, output.last(begin.size()))) ids.push_back(word.back());
  }
  return ids;
}

std::string NothingToDraw(RequestId id, int64_t position) {
  return StrCat("request ", id, ": no token can be drawn at position ", position,
                ", all logits are NaN, minus infinity or excluded");
}

Result<SampledToken> Sampler::Draw(const SampleRow& row) {
  ROSE_CHECK(!row.logits.empty(), "request ", row.id);
  Adjust(row);
  if (!row.mask.empty()) KeepMask(row.mask);
  Exclude(row);
  int32_t best = Largest(logits_);
  if (logits_[best] == kExcludedLogit && !row.mask.empty()) {
    Adjust(row);
    KeepMask(row.mask);
    best = Largest(logits_);
  }
  if (logits_[best] == kExcludedLogit) {
    return Status(StatusCode::kInternal, NothingToDraw(row.id, std::ssize(row.history)));
  }
  SampledToken token;
  const DrawRule rule = DrawRuleOf(*row.params, row.seed, std::ssize(row.history));
  token.id = rule.inverse_temperature == 0 ? best : Pick(rule, logits_[best]);
  if (row.params->logprobs >= 0) {
    AddLogprobs(row.logits, row.params->logprobs, token, row.params->logprob_ids);
  }
  return token;
}

Result<SampledToken> Sampler::Score(std::span<const float> logits, int32_t id, int64_t top) {
  if (std::all_of(logits.begin(), logits.end(),
                  [](float x) { return SaneLogit(x) == kExcludedLogit; })) {
    return Status(StatusCode::kInternal, "all logits are NaN or minus infinity");
  }
  SampledToken token;
  token.id = id;
  AddLogprobs(logits, top, token, {});
  return token;
}

// Logits with bias and penalties.
void Sampler::Adjust(const SampleRow& row) {
  logits_.resize(row.logits.size());
  std::transform(row.logits.begin(), row.logits.end(), logits_.begin(), SaneLogit);
  for (const auto& [id, bias] : row.params->logit_bias) logits_[id] = SaneLogit(logits_[id] + bias);
  if (HasPenalty(*row.params)) Penalise(row);
}

void Sampler::Exclude(const SampleRow& row) {
  for (int32_t id : ExcludedIds(row)) logits_[id] = kExcludedLogit;
  if (!row.params->allowed_ids.empty()) KeepOnly(row.params->allowed_ids);
}

void Sampler::KeepOnly(std::span<const int32_t> ids) {
  candidates_.clear();
  for (int32_t id : ids) candidates_.push_back({logits_[id], id, 0});
  std::fill(logits_.begin(), logits_.end(), kExcludedLogit);
  for (const Candidate& kept : candidates_) logits_[kept.id] = kept.logit;
}

// A vocabulary may have more ids than the tokenizer that a mask was made for: those are not in it.
void Sampler::KeepMask(std::span<const uint32_t> mask) {
  const int64_t vocab = std::ssize(logits_);
  for (int64_t first = 0; first < vocab; first += 32) {
    const int64_t word = first / 32;
    const uint32_t bits = word < std::ssize(mask) ? mask[word] : 0;
    if (bits == ~uint32_t{0}) continue;
    for (int64_t id = first; id < std::min(vocab, first + 32); ++id) {
      if ((bits >> (id % 32) & 1) == 0) logits_[id] = kExcludedLogit;
    }
  }
}

void Sampler::Penalise(const SampleRow& row) {
  const float repetition = static_cast<float>(row.params->repetition_penalty);
  const float frequency = static_cast<float>(row.params->frequency_penalty);
  const float presence = static_cast<float>(row.params->presence_penalty);
  counts_.resize(logits_.size(), 0);
  for (size_t i = 0; i < row.history.size(); ++i) {
    const int32_t id = row.history[i];
    if (counts_[id] == 0) {
      touched_.push_back(id);
      counts_[id] = 1;
    }
    if (static_cast<int64_t>(i) >= row.prompt_tokens) ++counts_[id];
  }
  for (int32_t id : touched_) {
    float logit = logits_[id];
    logit = logit > 0 ? logit / repetition : logit * repetition;
    const float occurrences = static_cast<float>(counts_[id] - 1);
    logit = logit - frequency * occurrences;
    if (occurrences > 0) logit = logit - presence;
    logits_[id] = SaneLogit(logit);
    counts_[id] = 0;
  }
  touched_.clear();
}

int32_t Sampler::Pick(const DrawRule& rule, float largest) {
  const bool all =
      rule.top_p >= 1 && (rule.top_k == 0 || rule.top_k >= static_cast<int>(logits_.size()));
  return all ? PickFromAll(rule, largest) : PickFromFew(rule, largest);
}

int32_t Sampler::PickFromAll(const DrawRule& rule, float largest) {
  weights_.resize(logits_.size());
  uint64_t total = 0;
  for (size_t id = 0; id < logits_.size(); ++id) {
    const float scaled = (logits_[id] - largest) * rule.inverse_temperature;
    weights_[id] = scaled >= rule.min_p_bound ? ExpWeight(scaled) : 0;
    total += weights_[id];
  }
  const uint64_t target = DrawTarget(rule.word, total);
  uint64_t sum = 0;
  for (size_t id = 0; id < weights_.size(); ++id) {
    sum += weights_[id];
    if (sum > target) return static_cast<int32_t>(id);
  }
  ROSE_CHECK(false, "target ", target, " of ", total, " was not reached");
  return 0;
}

int32_t Sampler::PickFromFew(const DrawRule& rule, float largest) {
  candidates_.clear();
  for (size_t id = 0; id < logits_.size(); ++id) {
    const float scaled = (logits_[id] - largest) * rule.inverse_temperature;
    const uint64_t weight = scaled >= rule.min_p_bound ? ExpWeight(scaled) : 0;
    if (weight == 0) continue;  // never drawn; it would only take up a place of top_k
    candidates_.push_back({logits_[id], static_cast<int32_t>(id), weight});
  }
  if (rule.top_k > 0 && rule.top_k < static_cast<int64_t>(candidates_.size())) {
    std::nth_element(candidates_.begin(), candidates_.begin() + rule.top_k, candidates_.end(),
                     kMoreLikely);
    candidates_.resize(rule.top_k);
  }
  if (rule.top_p < 1) KeepTopP(rule.top_p);
  std::sort(candidates_.begin(), candidates_.end(),
            [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  uint64_t total = 0;
  for (const Candidate& candidate : candidates_) total += candidate.weight;
  const uint64_t target = DrawTarget(rule.word, total);
  uint64_t sum = 0;
  for (const Candidate& candidate : candidates_) {
    sum += candidate.weight;
    if (sum > target) return candidate.id;
  }
  ROSE_CHECK(false, "target ", target, " of ", total, " was not reached");
  return 0;
}

void Sampler::KeepTopP(double top_p) {
  uint64_t total = 0;
  for (const Candidate& candidate : candidates_) total += candidate.weight;
  const double wanted = top_p * static_cast<double>(total);
  uint64_t sum = 0;
  // The nucleus is small as a rule, so the order is made piece by piece, as far as it takes.
  size_t sorted = 0;
  for (size_t kept = 0; kept < candidates_.size(); ++kept) {
    if (kept == sorted) {
      sorted = std::min(candidates_.size(), std::max<size_t>(64, sorted * 8));
      const auto first = candidates_.begin() + kept, last = candidates_.begin() + sorted;
      std::nth_element(first, last, candidates_.end(), kMoreLikely);
      std::sort(first, last, kMoreLikely);
    }
    sum += candidates_[kept].weight;
    if (static_cast<double>(sum) >= wanted) {
      candidates_.resize(kept + 1);
      return;
    }
  }
}

// Log-probabilities of the model's own distribution: of the logits as they came.
void Sampler::AddLogprobs(std::span<const float> logits, int64_t top, SampledToken& token,
                          std::span<const int32_t> also) {
  LargestOfBlocks(isa_, logits, largest_);
  const float largest = *std::max_element(largest_.begin(), largest_.end());
  const float log_sum = static_cast<float>(std::log(SumOfExponentials(isa_, logits, largest)));
  const auto logprob = [&](int32_t id) { return (SaneLogit(logits[id]) - largest) - log_sum; };
  token.logprob = logprob(token.id);
  KeepMostLikely(logits, top);
  for (const Candidate& likely : candidates_) {
    token.top.push_back({.id = likely.id, .logprob = logprob(likely.id)});
  }
  for (int32_t id : also) token.top.push_back({.id = id, .logprob = logprob(id)});
}

// Makes candidates_ the `top` largest of `logits`, largest first; what is excluded is none. Only
// blocks whose largest, in largest_, may be one of them are looked at.
void Sampler::KeepMostLikely(std::span<const float> logits, int64_t top) {
  candidates_.clear();
  if (top == 0) return;
  // A heap of the most likely so far, with the least likely of them in front.
  const auto is_none = [&](float logit) {
    if (logit == kExcludedLogit) return true;
    // Of equals, the lower id came first.
    return std::ssize(candidates_) == top && logit <= candidates_.front().logit;
  };
  for (size_t block = 0; block < largest_.size(); ++block) {
    if (is_none(largest_[block])) continue;
    const size_t begin = block * kLogitBlock;
    for (size_t id = begin; id < std::min(logits.size(), begin + kLogitBlock); ++id) {
      const float logit = SaneLogit(logits[id]);
      if (is_none(logit)) continue;
      if (std::ssize(candidates_) == top) {
        std::pop_heap(candidates_.begin(), candidates_.end(), kMoreLikely);
        candidates_.pop_back();
      }
      candidates_.push_back({logit, static_cast<int32_t>(id), 0});
      std::push_heap(candidates_.begin(), candidates_.end(), kMoreLikely);
    }
  }
  std::sort_heap(candidates_.begin(), candidates_.end(), kMoreLikely);
}

}  // namespace rose
