// The gpt-oss forward pass against the recorded logits and greedy tokens of transformers in f32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "models/golden.h"
#include "models/load.h"
#include "models/step_runner.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu_fast/cpu_fast_ops.h"

namespace rose {
namespace {

constexpr int64_t kGreedyTokens = 48;
constexpr int64_t kChunk = 512;  // of a prompt
// Measured: at most 7e-6, on every level.
constexpr float kLogitBound = 2e-5f;
const std::string kFolder = ROSE_SOURCE_DIR "/tests/data/toy-a";

// Logits [positions, vocab] of a prompt, run in chunks.
std::vector<float> PromptLogits(StepRunner& runner, std::span<const int32_t> tokens,
                                std::span<const int32_t> positions) {
  std::vector<float> all;
  const int64_t end = static_cast<int64_t>(tokens.size());
  for (int64_t start = 0; start < end; start += kChunk) {
    const int64_t size = std::min(kChunk, end - start);
    std::vector<int32_t> rows;
    for (int32_t position : positions) {
      if (position >= start && position < start + size) rows.push_back(position - start);
    }
    const SequenceTokens part{0, tokens.subspan(start, size)};
    const Tensor logits = runner.Run({&part, 1}, rows);
    all.insert(all.end(), logits.data<float>(), logits.data<float>() + logits.elements());
  }
  return all;
}

int32_t Largest(const float* logits, int64_t vocab) {
  return static_cast<int32_t>(std::max_element(logits, logits + vocab) - logits);
}

void CheckPrompt(std::unique_ptr<OpSet> ops, const std::string& prompt) {
  const Golden golden(kFolder + "/golden.safetensors");
  LoadedModel loaded = LoadModel(kFolder, std::move(ops), /*threads=*/1, {}).value();
  const std::vector<int32_t> tokens = golden.Integers(prompt + ".tokens");
  const std::vector<int32_t> positions = golden.Integers(prompt + ".positions");
  const int64_t vocab = loaded.model->info().vocab;
  auto runner = StepRunner::Create(*loaded.model, *loaded.ops, 1,
                                   static_cast<int64_t>(tokens.size()) + kGreedyTokens)
                    .value();

  std::vector<float> logits = PromptLogits(*runner, tokens, positions);
  const std::vector<float> expected = golden.Floats(prompt + ".logits_f32");
  ASSERT_EQ(logits.size(), expected.size());
  float worst = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    ASSERT_FALSE(std::isnan(logits[i])) << i;
    worst = std::max(worst, std::fabs(logits[i] - expected[i]));
  }
  EXPECT_LT(worst, kLogitBound);
  std::printf("%s: largest difference of a logit %.1e\n", prompt.c_str(), worst);

  ASSERT_EQ(positions.back(), static_cast<int32_t>(tokens.size()) - 1);
  const std::vector<int32_t> greedy = golden.Integers(prompt + ".greedy_f32");
  ASSERT_EQ(static_cast<int64_t>(greedy.size()), kGreedyTokens);
  const float* last = logits.data() + logits.size() - vocab;
  for (int64_t i = 0; i < kGreedyTokens; ++i) {
    const int32_t token = Largest(last, vocab);
    ASSERT_EQ(token, greedy[i]) << "greedy token " << i;
    const SequenceTokens part{0, {&token, 1}};
    const int32_t row = 0;
    last = runner->Run({&part, 1}, {&row, 1}).data<float>();
  }
}

class ToyA : public testing::TestWithParam<int> {};

TEST_P(ToyA, Cpu) {
  CheckPrompt(std::make_unique<CpuOps>(), StrCat("p", GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Prompts, ToyA, testing::Range(0, 7));

// The same at every level of instructions; with three threads, more than there is work for.
class ToyAFast : public testing::TestWithParam<std::tuple<CpuIsa, int>> {};

TEST_P(ToyAFast, Exact) {
  const auto [isa, prompt] = GetParam();
  CheckPrompt(std::make_unique<CpuFastOps>(CpuFastConfig{.threads = 3, .isa = isa}),
              StrCat("p", prompt));
}

INSTANTIATE_TEST_SUITE_P(
    Levels, ToyAFast, testing::Combine(testing::ValuesIn(AvailableCpuIsas()), testing::Range(0, 7)),
    [](const auto& info) {
      return StrCat(CpuIsaName(std::get<0>(info.param)), "_p", std::get<1>(info.param));
    });

}  // namespace
}  // namespace rose
