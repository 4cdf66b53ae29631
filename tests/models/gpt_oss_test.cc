#include "models/gpt_oss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "models/random_model.h"
#include "models/step_runner.h"
#include "ops/op_sets.h"

namespace rose {
namespace {

std::vector<int32_t> Tokens(int64_t n, uint32_t seed = 1) {
  std::vector<int32_t> tokens(n);
  for (int32_t& token : tokens) {
    seed = seed * 1664525u + 1013904223u;
    token = static_cast<int32_t>(seed >> 16) % 96;
  }
  return tokens;
}

// Logits after all tokens, in steps of `chunk`, alone.
std::vector<float> LogitsAlone(const Model& model, OpSet& ops, std::span<const int32_t> tokens,
                               int64_t chunk) {
  const int64_t n = static_cast<int64_t>(tokens.size());
  auto runner = StepRunner::Create(model, ops, 1, n).value();
  for (int64_t start = 0;; start += chunk) {
    const int64_t size = std::min(chunk, n - start);
    const SequenceTokens part{0, tokens.subspan(start, size)};
    const int32_t row = static_cast<int32_t>(size - 1);
    const bool is_last = start + size == n;
    const Tensor logits = runner->Run({&part, 1}, {&row, is_last ? size_t{1} : size_t{0}});
    if (is_last) return ToVector(logits);
    EXPECT_EQ(logits.dim(0), 0);
  }
}

TEST(Case071, EvenLayersHaveTheWindowAndOddLayersSeeAll) {
  const KvLayout kv = CreateModel(SmallConfig()).value()->info().kv;
  ASSERT_EQ(kv.groups.size(), 2u);
  EXPECT_EQ(kv.groups[0].window, 0);
  EXPECT_EQ(kv.groups[0].layers, std::vector<int>{1});
  EXPECT_EQ(kv.groups[1].window, 128);
  EXPECT_EQ(kv.groups[1].layers, std::vector<int>{0});
  for (OpSetCase& set : AllModelOpSets()) {
    SCOPED_TRACE(set.name);
    RandomModel random(SmallConfig(), *set.ops);
    const std::vector<int32_t> tokens = Tokens(400);
    const std::vector<float> right = LogitsAlone(random.model(), *set.ops, tokens, 400);
    for (int damaged : {0, 1}) {
      auto runner = StepRunner::Create(random.model(), *set.ops, 1, 400).value();
      const SequenceTokens before{0, std::span(tokens).first(399)};
      runner->Run({&before, 1}, {});
      // Positions 0 to 63 of one layer: out of reach of a window, within that of a full layer.
      FillPage(*set.ops, kv, runner->kv(), runner->kv().layers[damaged].group, 0, std::nanf(""));
      const SequenceTokens last{0, std::span(tokens).last(1)};
      const int32_t row = 0;
      const std::vector<float> logits = ToVector(runner->Run({&last, 1}, {&row, 1}));
      if (damaged == 0) {
        ExpectSameBits(logits.data(), right.data(), static_cast<int64_t>(right.size()));
      } else {
        EXPECT_TRUE(std::isnan(logits[0]));
      }
    }
  }
}

TEST(GptOssTest, ModelsOfOneKindOfLayerHaveOneGroup) {
  for (const char* kind : {"sliding_attention", "full_attention"}) {
    CpuOps ops;
    RandomModel random(
        SmallConfig(StrCat(R"({"layer_types": [")", kind, R"(", ")", kind, R"("]})")), ops);
    const KvLayout& kv = random.model().info().kv;
    ASSERT_EQ(kv.groups.size(), 1u);
    EXPECT_EQ(kv.groups[0].layers, (std::vector<int>{0, 1}));
    EXPECT_EQ(kv.groups[0].window, std::string(kind) == "sliding_attention" ? 128 : 0);
    for (float logit : LogitsAlone(random.model(), ops, Tokens(200), 64))
      ASSERT_TRUE(std::isfinite(logit));
  }
}

// Case 88 for a small model of every family.
class Case088 : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Families, Case088, testing::ValuesIn(SmallConfigs()),
                         [](const auto& info) {
                           return CreateModel(info.param).value()->info().architecture;
                         });

TEST_P(Case088, ARowIsTheSameBitsAloneInABatchAndInEveryChunking) {
  for (OpSetCase& set : AllModelOpSets()) {
    SCOPED_TRACE(set.name);
    RandomModel random(GetParam(), *set.ops);
    const std::vector<int32_t> tokens = Tokens(150);
    const std::vector<float> alone = LogitsAlone(random.model(), *set.ops, tokens, 150);
    for (int64_t chunk : {1, 7, 64}) {
      const std::vector<float> cut = LogitsAlone(random.model(), *set.ops, tokens, chunk);
      ExpectSameBits(cut.data(), alone.data(), static_cast<int64_t>(alone.size()));
    }
    for (int64_t batch : {2, 7, 8, 9, 16, 33, 64}) {
      SCOPED_TRACE(batch);
      auto runner = StepRunner::Create(random.model(), *set.ops, batch, 160).value();
      // The same prompt at three places of the batch, others of other lengths between.
      const std::set<int64_t> same = {0, batch / 2, batch - 1};
      std::vector<std::vector<int32_t>> prompts;
      std::vector<SequenceTokens> first, last;
      std::vector<int32_t> rows;
      for (int64_t s = 0; s < batch; ++s) {
        const int64_t length = 1 + s * 37 % 100;
        prompts.push_back(same.contains(s) ? tokens : Tokens(length, static_cast<uint32_t>(s)));
      }
      for (int64_t s = 0; s < batch; ++s) {
        const std::span<const int32_t> prompt = prompts[s];
        if (prompt.size() > 1) first.push_back({s, prompt.first(prompt.size() - 1)});
        last.push_back({s, prompt.last(1)});
        rows.push_back(static_cast<int32_t>(s));
      }
      runner->Run(first, {});
      const Tensor logits = runner->Run(last, rows);
      for (int64_t s : same) ExpectSameBits(logits.data<float>() + s * 96, alone.data(), 96);
    }
  }
}

TEST_P(Case088, TheNumberOfThreadsChangesNothing) {
  for (CpuIsa isa : AvailableCpuIsas()) {
    for (Precision precision : {Precision::kExact, Precision::kFast}) {
      std::vector<float> expected;
      for (int threads : {1, 2, 5}) {
        CpuFastOps ops({.threads = threads, .precision = precision, .isa = isa});
        RandomModel random(GetParam(), ops);
        const std::vector<float> logits = LogitsAlone(random.model(), ops, Tokens(200), 100);
        if (expected.empty()) expected = logits;
        ExpectSameBits(logits.data(), expected.data(), 96);
      }
    }
  }
}

TEST(GptOssTest, EveryExpertFormatGivesNearlyTheSame) {
  CpuOps reference;
  RandomModel expected(SmallConfig(), reference, kBf16Format);
  const std::vector<float> logits = LogitsAlone(expected.model(), reference, Tokens(40), 40);
  for (OpSetCase& set : FastOpSets()) {
    SCOPED_TRACE(set.name);
    RandomModel random(SmallConfig(), *set.ops, kBf16Format);
    ExpectNear(LogitsAlone(random.model(), *set.ops, Tokens(40), 40), logits,
               BoundOf(set.precision));
  }
}

TEST(GptOssTest, TheTableCountsAndSharesAreThoseOfThePublishedModel) {
  const auto model = CreateModel(SmallConfig(R"({"num_hidden_layers": 24, "layer_types": "-",
    "num_local_experts": 32, "hidden_size": 2880, "intermediate_size": 2880,
    "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 201088})"))
                         .value();
  // 13 rows a layer: q, k and v are one, blocks and scales are one.
  EXPECT_EQ(model->tensors().size(), 24u * 13 + 3);
  int64_t parameters = 0;
  for (const TensorSpec& spec : model->tensors()) {
    EXPECT_EQ(spec.sources.size(), 2u) << spec.name;
    EXPECT_EQ(spec.split == Split::kNone, spec.group == Group::kNone) << spec.name;
    int64_t n = 1;
    for (int64_t size : spec.shape) n *= size;
    parameters += n;
  }
  EXPECT_EQ(parameters, 20'914'757'184);  // spec A.2
}

}  // namespace
}  // namespace rose
