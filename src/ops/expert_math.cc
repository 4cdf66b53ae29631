#include "ops/expert_math.h"

#include <algorithm>
#include <cmath>

namespace rose {

float ApplySwiGlu(float gate, float up, const SwiGlu& activation) {
  // Written as comparisons that are false for NaN, so that a NaN passes through.
  if (gate > activation.limit) gate = activation.limit;
  if (up > activation.limit) up = activation.limit;
  if (up < -activation.limit) up = -activation.limit;
  return gate / (1.0f + std::exp(-activation.alpha * gate)) * (up + activation.up_offset);
}

void SelectExperts(std::span<const float> logits, std::span<int32_t> experts,
                   std::span<float> weights) {
  ROSE_CHECK_LE(experts.size(), logits.size());
  for (size_t k = 0; k < experts.size(); ++k) {
    int32_t best = -1;
    for (int32_t e = 0; e < static_cast<int32_t>(logits.size()); ++e) {
      if (std::find(experts.begin(), experts.begin() + k, e) != experts.begin() + k) continue;
      const bool wins = best < 0 || logits[e] > logits[best] ||
                        (std::isnan(logits[best]) && !std::isnan(logits[e]));
      if (wins) best = e;
    }
    experts[k] = best;
  }
  float sum = 0.0f;
  for (size_t k = 0; k < experts.size(); ++k) {
    weights[k] = std::exp(logits[experts[k]] - logits[experts[0]]);
    sum += weights[k];
  }
  for (float& weight : weights) weight /= sum;
}

}  // namespace rose
