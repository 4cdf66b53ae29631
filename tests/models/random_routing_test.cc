// How tokens of a model with made-up weights choose their experts, measured over all layers, and
// how large its activations are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/load.h"
#include "models/random_model.h"
#include "models/step_runner.h"
#include "ops/cpu_fast/cpu_fast_ops.h"

namespace rose {
namespace {

constexpr int64_t kExperts = 32;
constexpr int64_t kTopK = 4;
constexpr int64_t kLayers = 12;
constexpr int64_t kVocab = 8192;
constexpr int64_t kSequences = 8;
constexpr int64_t kTokens = 128;  // of each
constexpr double kRows = kSequences * kTokens;

double DeviationOf(const Tensor& x) {
  double squares = 0;
  for (int64_t i = 0; i < x.elements(); ++i) squares += std::pow(x.data<float>()[i], 2);
  return std::sqrt(squares / static_cast<double>(x.elements()));
}

// Shares of the rows that chose each expert, the largest first.
using Loads = std::vector<double>;

class RecordingOps : public CpuFastOps {
 public:
  using CpuFastOps::CpuFastOps;

  Routing Route(const Tensor& x, const Weight& weight, const Weight& bias, int top_k) override {
    Routing routing = CpuFastOps::Route(x, weight, bias, top_k);
    Loads load(kExperts);
    for (int64_t i = 0; i < routing.experts.elements(); ++i)
      load[routing.experts.data<int32_t>()[i]] += 1 / kRows;
    std::sort(load.rbegin(), load.rend());
    loads.push_back(load);
    return routing;
  }
  Tensor AddRmsNorm(Tensor& residual, const Tensor& delta, const Weight& weight,
                    float eps) override {
    deltas.push_back(DeviationOf(delta));
    Tensor out = CpuFastOps::AddRmsNorm(residual, delta, weight, eps);
    residuals.push_back(DeviationOf(residual));
    return out;
  }

  std::vector<Loads> loads;               // [layers]
  std::vector<double> residuals, deltas;  // [2 * layers]
};

struct Measured {
  std::vector<Loads> loads;
  std::vector<double> residuals, deltas;
  double logits = 0;
};

Measured RunModel(const RandomOptions& options) {
  const std::string config =
      SmallConfig(StrCat(R"({"num_local_experts": )", kExperts, R"(, "num_hidden_layers": )",
                         kLayers, R"(, "layer_types": "-", "vocab_size": )", kVocab,
                         R"(, "hidden_size": 512, "intermediate_size": 128})"));
  auto ops = std::make_unique<RecordingOps>(CpuFastConfig{});
  const RecordingOps& recorded = *ops;
  const LoadedModel loaded = LoadRandomModel("small", config, options, std::move(ops), {}).value();
  auto runner = StepRunner::Create(*loaded.model, *loaded.ops, kSequences, kTokens).value();
  std::vector<int32_t> tokens(kSequences * kTokens);
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<int32_t>(RandomWord(99, i) % kVocab);
  std::vector<SequenceTokens> step;
  for (int64_t s = 0; s < kSequences; ++s)
    step.push_back({s, std::span(tokens).subspan(s * kTokens, kTokens)});
  std::vector<int32_t> rows(tokens.size());
  std::iota(rows.begin(), rows.end(), 0);
  Measured measured;
  measured.logits = DeviationOf(runner->Run(step, rows));
  measured.loads = recorded.loads;
  measured.residuals = recorded.residuals;
  measured.deltas = recorded.deltas;
  return measured;
}

// Shares of rows that choose the expert of each rank when `kTopK` are drawn by Zipf's law without
// putting back, by drawing.
Loads ZipfLoads(double exponent) {
  constexpr int kDraws = 100'000;
  Loads loads(kExperts);
  for (int draw = 0; draw < kDraws; ++draw) {
    std::vector<std::pair<double, int>> keys;  // the largest of log(share) + Gumbel's noise
    for (int rank = 0; rank < kExperts; ++rank) {
      const uint64_t word = RandomWord(5, draw * kExperts + rank);
      const double uniform = (static_cast<double>(word >> 11) + 0.5) / 9007199254740992.0;
      keys.emplace_back(-exponent * std::log(rank + 1) - std::log(-std::log(uniform)), rank);
    }
    std::partial_sort(keys.begin(), keys.begin() + kTopK, keys.end(), std::greater<>());
    for (int64_t i = 0; i < kTopK; ++i) loads[keys[i].second] += 1.0 / kDraws;
  }
  return loads;
}

TEST(RandomRouting, IsBalancedInEveryLayer) {
  const Measured measured = RunModel({.seed = 3});
  const double mean = kTopK / static_cast<double>(kExperts);
  double most = 0, chi_squared = 0;
  for (const Loads& loads : measured.loads) {
    EXPECT_LT(loads.front() / mean, 1.6);
    EXPECT_GT(loads.back() / mean, 0.5);
    most += loads.front() / mean / kLayers;
    for (double load : loads) chi_squared += std::pow(load - mean, 2) / mean * kRows / kLayers;
  }
  // 4,096 even draws give 1.2 and 31 - 4; the rest is what tokens of a sequence have in common.
  EXPECT_LT(most, 1.4);
  EXPECT_LT(chi_squared, 120);
}

TEST(RandomRouting, FollowsZipfWhereAsked) {
  for (double exponent : {0.5, 1.0}) {
    const Loads wanted = ZipfLoads(exponent);
    const Measured measured = RunModel({.seed = 3, .zipf = exponent});
    for (int rank : {0, 1, 2, 4, 8, 16}) {
      double load = 0;
      for (const Loads& loads : measured.loads) load += loads[rank] / kLayers;
      EXPECT_NEAR(load / wanted[rank], 1, 0.3) << "rank " << rank << " of " << exponent;
    }
  }
}

TEST(RandomRouting, ActivationsNeitherVanishNorGrow) {
  const Measured measured = RunModel({.seed = 4, .experts = kBf16Format});
  for (size_t i = 0; i < measured.deltas.size(); ++i) {
    const bool is_attention = i % 2 == 0;
    EXPECT_GT(measured.deltas[i], is_attention ? 0.05 : 0.2) << i;
    EXPECT_LT(measured.deltas[i], 0.6) << i;
    EXPECT_GT(measured.residuals[i], 0.95) << i;
    EXPECT_LT(measured.residuals[i], 2.5) << i;
  }
  EXPECT_NEAR(measured.logits, 3, 0.3);
}

TEST(RandomRouting, ANameAndASeedDecideAllWeights) {
  const auto make = [](uint64_t seed) {
    return LoadRandomModel("small", SmallConfig(), {.seed = seed},
                           std::make_unique<CpuFastOps>(CpuFastConfig{}), {})
        .value();
  };
  const LoadedModel a = make(1), b = make(1), c = make(2);
  for (const auto& [name, weight] : a.weights) {
    for (const Tensor Weight::* part : {&Weight::data, &Weight::scales}) {
      const Tensor& x = weight.*part;
      if (x.empty()) continue;
      const auto equals = [&](const LoadedModel& other) {
        return std::memcmp(x.raw(), (other.weights.at(name).*part).raw(), x.bytes()) == 0;
      };
      EXPECT_TRUE(equals(b)) << name;
      EXPECT_FALSE(equals(c)) << name;
    }
  }
}

}  // namespace
}  // namespace rose
