// Random rows to draw from, with every option of a draw, for tests that compare samplers.
#pragma once

#include <random>
#include <vector>

#include "engine/sampler.h"

namespace rose {

struct RandomDraw {
  std::vector<float> logits;
  SamplingParams params;
  std::vector<int32_t> history;
  int64_t prompt_tokens = 0;
  std::vector<int32_t> forbidden;
  std::vector<uint32_t> mask;
  uint64_t seed = 0;

  SampleRow row() const {
    return {.id = 7,
            .logits = logits,
            .params = &params,
            .seed = seed,
            .history = history,
            .prompt_tokens = prompt_tokens,
            .forbidden_ids = forbidden,
            .mask = mask};
  }
};

// Logits of few different values as well as of many, NaN and infinities among them; each option is
// there in about a third of the draws.
inline RandomDraw MakeRandomDraw(std::mt19937_64& random, int64_t vocab) {
  const auto sometimes = [&] { return random() % 3 == 0; };
  const auto token = [&] { return static_cast<int32_t>(random() % static_cast<uint64_t>(vocab)); };
  RandomDraw draw;
  std::normal_distribution<float> normal(0, sometimes() ? 0.3f : 4.0f);
  const bool few_values = random() % 4 == 0;
  for (int64_t i = 0; i < vocab; ++i) {
    const float x = normal(random);
    draw.logits.push_back(few_values ? std::round(x) : x);
  }
  if (sometimes()) draw.logits[token()] = std::nanf("");
  if (sometimes()) draw.logits[token()] = -std::numeric_limits<float>::infinity();
  if (random() % 12 == 0) draw.logits[token()] = std::numeric_limits<float>::infinity();
  SamplingParams& p = draw.params;
  p.temperature = random() % 4 == 0 ? 0 : 0.2 + static_cast<double>(random() % 20) / 10;
  if (sometimes()) p.top_p = static_cast<double>(random() % 11) / 10;
  if (sometimes()) p.top_k = 1 + static_cast<int>(random() % static_cast<uint64_t>(2 * vocab));
  if (sometimes()) p.top_k = 1 + static_cast<int>(random() % 20);
  if (sometimes()) p.min_p = static_cast<double>(random() % 10) / 100;
  if (sometimes()) p.repetition_penalty = 1.3;
  if (sometimes()) p.frequency_penalty = 0.7;
  if (sometimes()) p.presence_penalty = -0.4;
  for (uint64_t n = sometimes() ? random() % 20 : 0; n > 0; --n) {
    p.logit_bias.emplace_back(static_cast<int32_t>((n * 7919) % static_cast<uint64_t>(vocab)),
                              static_cast<float>(random() % 9) - 4);
  }
  std::sort(p.logit_bias.begin(), p.logit_bias.end());
  p.logit_bias.erase(std::unique(p.logit_bias.begin(), p.logit_bias.end(),
                                 [](const auto& a, const auto& b) { return a.first == b.first; }),
                     p.logit_bias.end());
  for (uint64_t n = 1 + random() % 60; n > 0; --n) draw.history.push_back(token());
  draw.prompt_tokens = static_cast<int64_t>(random() % draw.history.size());
  if (sometimes()) p.bad_words = {{token()}, {draw.history.back(), token()}};
  if (sometimes()) draw.forbidden = {token(), token()};
  if (random() % 8 == 0) p.allowed_ids = {token(), token(), token()};
  if (sometimes()) {
    const auto words = static_cast<int64_t>(random() % static_cast<uint64_t>(vocab / 32 + 2)) + 1;
    for (int64_t i = 0; i < words; ++i) draw.mask.push_back(static_cast<uint32_t>(random()));
  }
  draw.seed = random();
  return draw;
}

}  // namespace rose
