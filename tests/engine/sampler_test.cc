#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "base/check.h"
#include "base/draw.h"

namespace rose {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

SampleRow Row(std::span<const float> logits, const SamplingParams& params,
              std::span<const int32_t> history = {}, int64_t prompt_tokens = 0) {
  return {.id = 42,
          .logits = logits,
          .params = &params,
          .seed = 1,
          .history = history,
          .prompt_tokens = prompt_tokens,
          .forbidden_ids = {}};
}

int32_t DrawOne(const SampleRow& row) {
  return Sampler().Draw(row).value().id;
}

SamplingParams Greedy() {
  SamplingParams params;
  params.temperature = 0;
  return params;
}

// How often every id is drawn with `draws` seeds.
std::vector<int64_t> Histogram(SampleRow row, int64_t draws) {
  Sampler sampler;
  std::vector<int64_t> counts(row.logits.size(), 0);
  for (row.seed = 0; row.seed < static_cast<uint64_t>(draws); ++row.seed) {
    ++counts[sampler.Draw(row).value().id];
  }
  return counts;
}

// The published vectors of the generator's authors (Random123, kat_vectors).
TEST(Draw, PhiloxGivesThePublishedWords) {
  using Four = std::array<uint32_t, 4>;
  EXPECT_EQ(Philox({0, 0, 0, 0}, {0, 0}), (Four{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Four{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Four{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// What another device must reproduce bit by bit.
TEST(Draw, WordsAndWeightsAreFixed) {
  EXPECT_EQ(DrawWord(0, 0), 0xe169c58d6627e8d5u);
  EXPECT_NE(DrawWord(0, 1), DrawWord(1, 0));
  EXPECT_EQ(ExpWeight(0.0f), uint64_t{1} << 40);
  EXPECT_EQ(ExpWeight(-0.0f), uint64_t{1} << 40);
  EXPECT_EQ(ExpWeight(-1.0f), 404487733248u);
  EXPECT_EQ(ExpWeight(-10.0f), 49917748u);
  EXPECT_EQ(ExpWeight(-29.0f), 0u);
  EXPECT_EQ(ExpWeight(-kInf), 0u);
  EXPECT_EQ(ExpWeight(kNan), 0u);
  EXPECT_EQ(DrawTarget(0, 1000), 0u);
  EXPECT_EQ(DrawTarget(~uint64_t{0}, 1000), 999u);
}

TEST(Draw, WeightsAreExponentials) {
  for (float x = 0; x > -12; x -= 0.00137f) {
    const double exact = std::ldexp(std::exp(static_cast<double>(x)), kWeightBits);
    ASSERT_NEAR(static_cast<double>(ExpWeight(x)) / exact, 1.0, 2e-6) << x;
  }
}

TEST(Sampler, GreedyTakesTheLargestAndTheLowestIdOfEquals) {
  const std::vector<float> logits = {1, 3, 2, 3, -1};
  EXPECT_EQ(DrawOne(Row(logits, Greedy())), 1);
  const std::vector<float> equal(7, -2.5f);
  EXPECT_EQ(DrawOne(Row(equal, Greedy())), 0);
}

TEST(Sampler, BrokenLogitsAreNeverDrawn) {
  const std::vector<float> logits = {kNan, -kInf, 1, kNan, 2};
  EXPECT_EQ(DrawOne(Row(logits, Greedy())), 4);
  const std::vector<float> infinite = {1, kInf, kNan, -kInf};
  EXPECT_EQ(DrawOne(Row(infinite, Greedy())), 1);
  for (double top_p : {1.0, 0.9}) {
    for (double temperature : {0.5, 1e-4, 1e6, 1e300}) {
      SamplingParams params;
      params.top_p = top_p;
      params.temperature = temperature;
      params.logprobs = 3;
      const std::vector<int64_t> counts = Histogram(Row(logits, params), 50);
      EXPECT_EQ(counts[0] + counts[1] + counts[3], 0);
      // At the highest temperature all are equal, infinity or not.
      if (temperature <= 1e6) {
        EXPECT_EQ(Histogram(Row(infinite, params), 50)[1], 50);
      }
    }
  }
}

TEST(Sampler, ARowOfNanIsAnErrorThatNamesTheRequest) {
  const std::vector<float> logits(5, kNan);
  const Status status = Sampler().Draw(Row(logits, Greedy())).status();
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_NE(status.message().find("request 42"), std::string::npos);
  EXPECT_FALSE(Sampler().Score(logits, 1, 2).ok());
}

TEST(Sampler, ForbiddenIdsGiveWayToTheNextBest) {
  const std::vector<float> logits = {1, 3, 2};
  const std::vector<int32_t> forbidden = {1};
  const SamplingParams greedy = Greedy();
  SampleRow row = Row(logits, greedy);
  row.forbidden_ids = forbidden;
  EXPECT_EQ(DrawOne(row), 2);
  SamplingParams params;
  params.logit_bias = {{1, 100.0f}};  // does not bring it back
  row.params = &params;
  EXPECT_EQ(Histogram(row, 100)[1], 0);
}

std::vector<uint32_t> Mask(int64_t vocab, const std::vector<int32_t>& ids) {
  std::vector<uint32_t> mask((vocab + 31) / 32, 0);
  for (int32_t id : ids) mask[id / 32] |= 1u << (id % 32);
  return mask;
}

TEST(Sampler, NothingOutsideTheMaskIsDrawn) {
  std::vector<float> logits(70, 0.0f);
  logits[3] = 9, logits[40] = 2, logits[69] = 1, logits[64] = kNan;
  const std::vector<uint32_t> mask = Mask(70, {40, 64, 69});
  const auto drawn = [&](auto change) {
    SamplingParams params;
    params.logit_bias = {{3, 100.0f}, {5, 100.0f}};
    change(params);
    SampleRow row = Row(logits, params);
    row.mask = mask;
    std::vector<int32_t> ids;
    const std::vector<int64_t> counts = Histogram(row, 300);
    for (int32_t id = 0; id < 70; ++id) {
      if (counts[id] > 0) ids.push_back(id);
    }
    return ids;
  };
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(drawn([](SamplingParams&) {}), (Ids{40, 69}));
  EXPECT_EQ(drawn([](SamplingParams& p) { p.temperature = 0; }), (Ids{40}));
  EXPECT_EQ(drawn([](SamplingParams& p) { p.top_k = 2; }), (Ids{40, 69}));
  EXPECT_EQ(drawn([](SamplingParams& p) { p.top_p = 0.5; }), (Ids{40}));
  EXPECT_EQ(drawn([](SamplingParams& p) { p.allowed_ids = {69, 3}; }), (Ids{69}));
  EXPECT_EQ(drawn([](SamplingParams& p) { p.bad_words = {{40}}; }), (Ids{69}));
  // Where mask and the rest leave nothing, the mask alone counts.
  EXPECT_EQ(drawn([](SamplingParams& p) { p.allowed_ids = {3}; }), (Ids{40, 69}));
  EXPECT_EQ(drawn([](SamplingParams& p) { p.bad_words = {{40}, {69}}; }), (Ids{40, 69}));
}

TEST(Sampler, IdsBeyondAMaskAreNotInIt) {
  const std::vector<float> logits(100, 1.0f);
  const std::vector<uint32_t> mask = {0, 1u << 3};
  const SamplingParams params;
  SampleRow row = Row(logits, params);
  row.mask = mask;
  EXPECT_EQ(Histogram(row, 50)[35], 50);
}

TEST(Sampler, TheMaskAloneCountsWhereStopIdsMayNotComeYet) {
  const std::vector<float> logits = {3, 2, 1};
  const std::vector<int32_t> forbidden = {1};
  const std::vector<uint32_t> mask = Mask(3, {1});
  const SamplingParams greedy = Greedy();
  SampleRow row = Row(logits, greedy);
  row.forbidden_ids = forbidden;
  EXPECT_EQ(DrawOne(row), 0);
  row.mask = mask;
  EXPECT_EQ(DrawOne(row), 1);
  // Without a mask there is nothing to fall back to.
  SamplingParams params = Greedy();
  params.allowed_ids = {1};
  row.params = &params;
  row.mask = {};
  EXPECT_EQ(Sampler().Draw(row).status().code(), StatusCode::kInternal);
}

// history: prompt {0, 1}, output {1, 2}.
TEST(Sampler, ABadWordsLastTokenIsExcludedBehindItsBeginning) {
  const std::vector<int32_t> history = {0, 1, 1, 2};
  const std::vector<float> logits = {1, 2, 3, 4};
  const auto drawn = [&](std::vector<std::vector<int32_t>> words) {
    SamplingParams params = Greedy();
    params.bad_words = std::move(words);
    return DrawOne(Row(logits, params, history, 2));
  };
  EXPECT_EQ(drawn({{3}}), 2);
  EXPECT_EQ(drawn({{2, 3}}), 2);
  EXPECT_EQ(drawn({{1, 2, 3}, {2}}), 1);
  EXPECT_EQ(drawn({{1, 3}}), 3);
  EXPECT_EQ(drawn({{1, 1, 2, 3}}), 3);  // begins in the prompt: only the output counts
  EXPECT_EQ(drawn({{0, 1, 1, 2, 3, 3}}), 3);
}

TEST(Sampler, BiasIsAddedToTheLogit) {
  const std::vector<float> logits = {1, 3, 2};
  SamplingParams params = Greedy();
  params.logit_bias = {{0, 2.5f}};
  EXPECT_EQ(DrawOne(Row(logits, params)), 0);
  params.logit_bias = {{0, 2.0f}};  // equal to id 1
  EXPECT_EQ(DrawOne(Row(logits, params)), 0);
  params.logit_bias = {{1, -100.0f}};
  EXPECT_EQ(DrawOne(Row(logits, params)), 2);
}

// history: prompt {0, 1}, output {1, 2, 2}.
TEST(Sampler, PenaltiesCountAsTheApiSays) {
  const std::vector<int32_t> history = {0, 1, 1, 2, 2};
  const auto drawn = [&](SamplingParams params, std::vector<float> logits) {
    // A competitor, id 3, wins exactly when the penalty is as expected.
    return DrawOne(Row(logits, params, history, 2));
  };
  SamplingParams presence = Greedy();
  presence.presence_penalty = 1;
  EXPECT_EQ(drawn(presence, {9, 0, 0, 8.5f}), 0);   // prompt only: not counted
  EXPECT_EQ(drawn(presence, {0, 0, 9, 8.01f}), 3);  // 9 - 1, once for two
  EXPECT_EQ(drawn(presence, {0, 0, 9, 7.99f}), 2);
  SamplingParams frequency = Greedy();
  frequency.frequency_penalty = 1;
  EXPECT_EQ(drawn(frequency, {9, 0, 0, 8.5f}), 0);
  EXPECT_EQ(drawn(frequency, {0, 0, 9, 7.01f}), 3);  // 9 - 2
  EXPECT_EQ(drawn(frequency, {0, 0, 9, 6.99f}), 2);
  EXPECT_EQ(drawn(frequency, {0, 9, 0, 7.99f}), 1);  // one in the output
  SamplingParams repetition = Greedy();
  repetition.repetition_penalty = 2;
  EXPECT_EQ(drawn(repetition, {9, 0, 0, 4.51f}), 3);  // prompt counts: 9 / 2
  EXPECT_EQ(drawn(repetition, {9, 0, 0, 4.49f}), 0);
  EXPECT_EQ(drawn(repetition, {-9, -9, -1, -2.01f}), 2);  // -1 * 2
  EXPECT_EQ(drawn(repetition, {-9, -9, -1, -1.99f}), 3);
}

TEST(Sampler, AScratchOfPenaltiesIsCleanForTheNextRow) {
  const std::vector<float> logits = {5, 4.5f, 0};
  const std::vector<int32_t> often = {0, 0, 0}, once = {0}, other = {1};
  SamplingParams params = Greedy();
  params.frequency_penalty = 1;
  Sampler sampler;
  EXPECT_EQ(sampler.Draw(Row(logits, params, often))->id, 1);
  EXPECT_EQ(sampler.Draw(Row(logits, params, once))->id, 1);
  EXPECT_EQ(sampler.Draw(Row(logits, params, other))->id, 0);
}

TEST(Sampler, FiltersKeepWhatTheySay) {
  const std::vector<float> logits = {std::log(0.1f), std::log(0.4f), std::log(0.2f), std::log(0.1f),
                                     std::log(0.2f)};
  const auto drawn = [&](auto change) {
    SamplingParams params;
    change(params);
    std::string kept;
    const std::vector<int64_t> counts = Histogram(Row(logits, params), 2000);
    for (int64_t count : counts) kept += count > 0 ? 'x' : '.';
    return kept;
  };
  EXPECT_EQ(drawn([](SamplingParams&) {}), "xxxxx");
  EXPECT_EQ(drawn([](SamplingParams& p) { p.top_k = 1; }), ".x...");
  EXPECT_EQ(drawn([](SamplingParams& p) { p.top_k = 2; }), ".xx..");  // ties go to the lower id
  EXPECT_EQ(drawn([](SamplingParams& p) { p.top_k = 4; }), "xxx.x");
  EXPECT_EQ(drawn([](SamplingParams& p) { p.top_k = 9; }), "xxxxx");
  EXPECT_EQ(drawn([](SamplingParams& p) { p.top_p = 0.39; }), ".x...");
  EXPECT_EQ(drawn([](SamplingParams& p) { p.top_p = 0.41; }), ".xx..");
  EXPECT_EQ(drawn([](SamplingParams& p) { p.top_p = 0.85; }), "xxx.x");
  EXPECT_EQ(drawn([](SamplingParams& p) { p.top_p = 1e-9; }), ".x...");
  EXPECT_EQ(drawn([](SamplingParams& p) { p.min_p = 0.45; }), ".xx.x");
  EXPECT_EQ(drawn([](SamplingParams& p) { p.min_p = 0.55; }), ".x...");
  EXPECT_EQ(drawn([](SamplingParams& p) { p.min_p = 1; }), ".x...");
  // top_p is a share of what top_k and min_p leave: 0.4 of 0.8.
  EXPECT_EQ(drawn([](SamplingParams& p) { p.top_k = 3, p.top_p = 0.49; }), ".x...");
  EXPECT_EQ(drawn([](SamplingParams& p) { p.min_p = 0.45, p.top_p = 0.49; }), ".x...");
}

// Slow reference in double: the probability of every id.
std::vector<double> ReferenceProbabilities(const SampleRow& row) {
  const SamplingParams& p = *row.params;
  const size_t vocab = row.logits.size();
  std::vector<double> logit(row.logits.begin(), row.logits.end());
  for (auto [id, bias] : p.logit_bias) logit[id] += bias;
  const auto output_now = row.history.subspan(row.prompt_tokens);
  std::vector<bool> excluded(vocab, false), outside(vocab, false);
  for (size_t id = 0; id < vocab; ++id) {
    const auto same = [&](int32_t token) { return token == static_cast<int32_t>(id); };
    outside[id] = !row.mask.empty() && (row.mask[id / 32] >> (id % 32) & 1) == 0;
    excluded[id] = outside[id] || std::ranges::any_of(row.forbidden_ids, same) ||
                   (!p.allowed_ids.empty() && std::ranges::none_of(p.allowed_ids, same));
    for (const std::vector<int32_t>& word : p.bad_words) {
      const std::vector<int32_t> begin(word.begin(), word.end() - 1);
      const bool ends = begin.size() <= output_now.size() &&
                        std::ranges::equal(begin, output_now.last(begin.size()));
      if (ends && same(word.back())) excluded[id] = true;
    }
  }
  if (std::ranges::count(excluded, false) == 0) excluded = outside;
  for (size_t id = 0; id < vocab; ++id) {
    const auto is_id = [&](int32_t token) { return token == static_cast<int32_t>(id); };
    const auto output = row.history.subspan(row.prompt_tokens);
    const auto count = std::count_if(output.begin(), output.end(), is_id);
    if (std::any_of(row.history.begin(), row.history.end(), is_id)) {
      logit[id] =
          logit[id] > 0 ? logit[id] / p.repetition_penalty : logit[id] * p.repetition_penalty;
    }
    logit[id] -= p.frequency_penalty * count + (count > 0 ? p.presence_penalty : 0);
    if (excluded[id]) logit[id] = -kInf;
  }
  std::vector<int32_t> order(vocab);
  for (size_t id = 0; id < vocab; ++id) order[id] = static_cast<int32_t>(id);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return logit[a] > logit[b]; });
  std::vector<double> weight(vocab, 0);
  const double largest = logit[order[0]];
  double total = 0;
  for (size_t rank = 0; rank < vocab; ++rank) {
    if (p.top_k > 0 && rank >= static_cast<size_t>(p.top_k)) break;
    const double w = std::exp((logit[order[rank]] - largest) / p.temperature);
    if (w < p.min_p) break;
    weight[order[rank]] = w;
    total += w;
  }
  double sum = 0, kept = 0;
  for (int32_t id : order) {
    if (sum >= p.top_p * total) weight[id] = 0;
    sum += weight[id];
    kept += weight[id];
  }
  for (double& w : weight) w /= kept;
  return weight;
}

// The same token as the reference's inverse distribution function at the same random word, up to
// rounding at the borders between tokens.
TEST(Sampler, AgreesWithADoubleReference) {
  Sampler sampler;
  int64_t at_a_border = 0;
  for (uint64_t seed = 1; seed <= 4000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto uniform = [&](double a, double b) {
      return std::uniform_real_distribution<double>(a, b)(random);
    };
    const int64_t vocab = 2 + random() % (seed % 10 == 0 ? 3000 : 60);
    std::vector<float> logits(vocab);
    for (float& logit : logits) logit = static_cast<float>(uniform(-6, 6));
    SamplingParams p;
    p.temperature = uniform(0.2, 3);
    if (random() % 2) p.top_k = 1 + random() % vocab;
    if (random() % 2) p.top_p = uniform(0.05, 1);
    if (random() % 2) p.min_p = uniform(0, 0.5);
    if (random() % 2) p.presence_penalty = uniform(-2, 2);
    if (random() % 2) p.frequency_penalty = uniform(-2, 2);
    if (random() % 2) p.repetition_penalty = uniform(0.5, 2);
    if (random() % 2) p.logit_bias = {{static_cast<int32_t>(random() % vocab), 3.0f}};
    std::vector<int32_t> history(1 + random() % 20);
    for (int32_t& token : history) token = static_cast<int32_t>(random() % vocab);
    const std::vector<int32_t> forbidden = {static_cast<int32_t>(random() % vocab)};
    SampleRow row = Row(logits, p, history, random() % (history.size() + 1));
    row.seed = seed;
    if (random() % 2) row.forbidden_ids = forbidden;
    const auto some_ids = [&](int64_t most) {
      std::vector<int32_t> ids(1 + random() % most);
      for (int32_t& id : ids) id = static_cast<int32_t>(random() % vocab);
      return ids;
    };
    const std::vector<uint32_t> mask = Mask(vocab, some_ids(2 * vocab));
    const bool masked = random() % 2 == 0;
    if (masked) row.mask = mask;
    // Without a mask, what is left may be nothing; that is another test's.
    if (masked && random() % 2) p.allowed_ids = some_ids(vocab);
    if (masked && random() % 2) p.bad_words = {some_ids(1), some_ids(2), {history.back(), 0}};

    const std::vector<double> probability = ReferenceProbabilities(row);
    const double u = std::ldexp(static_cast<double>(DrawWord(seed, history.size())), -64);
    const int32_t id = sampler.Draw(row).value().id;
    ASSERT_GE(id, 0);
    ASSERT_LT(id, vocab);
    double below = 0;
    for (int32_t other = 0; other < id; ++other) below += probability[other];
    if (u < below || u >= below + probability[id]) {
      ++at_a_border;
      EXPECT_LT(std::max(below - u, u - (below + probability[id])), 1e-5);
    }
  }
  EXPECT_LT(at_a_border, 4) << "rounding decides too often";
}

// Chi-square of 30,000 draws against the reference's probabilities, over seeds and over positions.
// The seeds are fixed, so the outcome is; the bound is the 99.9 % point for 9 degrees of freedom.
TEST(Sampler, DrawsFollowTheDistribution) {
  std::vector<float> logits;
  for (int id = 0; id < 10; ++id) logits.push_back(static_cast<float>((id * 7) % 10) * 0.3f);
  SamplingParams params;
  params.temperature = 1.3;
  const SampleRow row = Row(logits, params);
  const std::vector<double> expected = ReferenceProbabilities(row);
  constexpr int64_t kDraws = 30000;
  const auto chi_square = [&](const std::vector<int64_t>& counts) {
    double sum = 0;
    for (int id = 0; id < 10; ++id) {
      const double wanted = expected[id] * kDraws;
      sum += (counts[id] - wanted) * (counts[id] - wanted) / wanted;
    }
    return sum;
  };
  EXPECT_LT(chi_square(Histogram(row, kDraws)), 27.88);

  Sampler sampler;
  std::vector<int64_t> counts(10, 0);
  const std::vector<int32_t> history(kDraws, 0);
  for (int64_t position = 0; position < kDraws; ++position) {
    SampleRow at = row;
    at.history = std::span(history).first(position);
    ++counts[sampler.Draw(at).value().id];
  }
  EXPECT_LT(chi_square(counts), 27.88);
}

TEST(Sampler, LogprobsAreTheModelsOwn) {
  const std::vector<float> logits = {std::log(0.1f), std::log(0.4f), std::log(0.2f), std::log(0.1f),
                                     std::log(0.2f)};
  SamplingParams params = Greedy();
  params.logprobs = 3;
  params.logit_bias = {{0, 50.0f}};  // changes the draw, not the distribution told
  const SampledToken token = Sampler().Draw(Row(logits, params)).value();
  EXPECT_EQ(token.id, 0);
  EXPECT_NEAR(token.logprob, std::log(0.1), 1e-6);
  ASSERT_EQ(token.top.size(), 3u);
  EXPECT_EQ(token.top[0].id, 1);
  EXPECT_EQ(token.top[1].id, 2);
  EXPECT_EQ(token.top[2].id, 4);
  EXPECT_NEAR(token.top[0].logprob, std::log(0.4), 1e-6);
  EXPECT_NEAR(token.top[2].logprob, std::log(0.2), 1e-6);
  params.logprob_ids = {3, 1};
  const std::vector<uint32_t> mask = Mask(5, {4});  // changes the draw, not the distribution told
  SampleRow masked = Row(logits, params);
  masked.mask = mask;
  const SampledToken more = Sampler().Draw(masked).value();
  EXPECT_EQ(more.id, 4);
  EXPECT_NEAR(more.logprob, std::log(0.2), 1e-6);
  ASSERT_EQ(more.top.size(), 5u);
  EXPECT_EQ(more.top[0].id, 1);
  EXPECT_EQ(more.top[3].id, 3);
  EXPECT_NEAR(more.top[3].logprob, std::log(0.1), 1e-6);
  EXPECT_EQ(more.top[4].id, 1);
  params.logprob_ids.clear();
  params.logprobs = 0;
  EXPECT_TRUE(Sampler().Draw(Row(logits, params))->top.empty());
  params.logprobs = -1;
  EXPECT_EQ(Sampler().Draw(Row(logits, params))->logprob, 0);
}

TEST(Sampler, ScoresAnyTokenOfARow) {
  const std::vector<float> logits = {std::log(0.1f), kNan, std::log(0.5f), std::log(0.4f)};
  const SampledToken token = Sampler().Score(logits, 3, 9).value();
  EXPECT_EQ(token.id, 3);
  EXPECT_NEAR(token.logprob, std::log(0.4), 1e-6);
  ASSERT_EQ(token.top.size(), 3u);  // NaN is no entry
  EXPECT_EQ(token.top[0].id, 2);
  EXPECT_EQ(token.top[2].id, 0);
  EXPECT_TRUE(Sampler().Score(logits, 3, 0)->top.empty());
}

// The most likely, whatever their number: the same as a full sort, ties by lower id.
TEST(Sampler, TheTopOfARowIsThatOfASort) {
  std::mt19937_64 random(7);
  std::vector<float> logits(500);
  for (float& logit : logits) logit = static_cast<float>(random() % 60);
  std::vector<int32_t> order(logits.size());
  for (size_t id = 0; id < order.size(); ++id) order[id] = static_cast<int32_t>(id);
  std::ranges::stable_sort(order, [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  for (int64_t top : {1, 2, 20, 499, 500, 600}) {
    const SampledToken token = Sampler().Score(logits, 0, top).value();
    ASSERT_EQ(std::ssize(token.top), std::min<int64_t>(top, 500));
    for (size_t i = 0; i < token.top.size(); ++i) ASSERT_EQ(token.top[i].id, order[i]) << i;
  }
}

}  // namespace
}  // namespace rose
