// What a DrawSpec asks for, written plainly: sorts all candidates. For tests of those that are
// fast.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "ops/draw_queue.h"

namespace rose {

// -1 where no token is left to draw.
inline int32_t DrawByReference(std::span<const float> logits, const DrawSpec& spec) {
  constexpr float kExcluded = -std::numeric_limits<float>::infinity();
  const auto sane = [](float x) {
    return x > kExcluded ? std::min(x, std::numeric_limits<float>::max()) : kExcluded;
  };
  std::vector<float> values;
  for (float x : logits) values.push_back(sane(x));
  const DrawRule& rule = spec.rule;
  for (const LogitEdit& edit : spec.edits) {
    float& x = values[edit.id];
    if (edit.bias != 0) x = sane(x + edit.bias);
    if (edit.occurrences >= 0) {
      const auto n = static_cast<float>(edit.occurrences);
      x = x > 0 ? x / rule.repetition_penalty : x * rule.repetition_penalty;
      x = x - rule.frequency_penalty * n;
      if (n > 0) x = x - rule.presence_penalty;
      x = sane(x);
    }
    if (edit.excluded) x = kExcluded;
  }
  if (!spec.mask.empty()) {
    for (size_t id = 0; id < values.size(); ++id) {
      const bool is_allowed =
          id / 32 < spec.mask.size() && (spec.mask[id / 32] >> (id % 32) & 1) != 0;
      if (!is_allowed) values[id] = kExcluded;
    }
  }
  struct Candidate {
    float logit;
    int32_t id;
    uint64_t weight;
  };
  const auto best = std::max_element(values.begin(), values.end());
  const float largest = *best;
  if (largest == kExcluded) return -1;
  if (rule.inverse_temperature == 0) return static_cast<int32_t>(best - values.begin());
  std::vector<Candidate> kept;
  for (size_t id = 0; id < values.size(); ++id) {
    const float scaled = (values[id] - largest) * rule.inverse_temperature;
    const uint64_t weight = scaled >= rule.min_p_bound ? ExpWeight(scaled) : 0;
    if (weight > 0) kept.push_back({values[id], static_cast<int32_t>(id), weight});
  }
  std::sort(kept.begin(), kept.end(), [](const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
  });
  if (rule.top_k > 0 && rule.top_k < std::ssize(kept)) kept.resize(rule.top_k);
  const auto sum = [&](size_t n) {
    uint64_t total = 0;
    for (size_t i = 0; i < n; ++i) total += kept[i].weight;
    return total;
  };
  if (rule.top_p < 1) {
    const double wanted = rule.top_p * static_cast<double>(sum(kept.size()));
    size_t n = 1;
    while (n < kept.size() && static_cast<double>(sum(n)) < wanted) ++n;
    kept.resize(n);
  }
  std::sort(kept.begin(), kept.end(),
            [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  const uint64_t target = DrawTarget(rule.word, sum(kept.size()));
  size_t n = 1;
  while (sum(n) <= target) ++n;
  return kept[n - 1].id;
}

}  // namespace rose
