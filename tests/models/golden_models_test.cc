// Every family's forward pass against the recorded logits and greedy tokens of transformers in f32.
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

constexpr int64_t kChunk = 512;  // of a prompt
constexpr float kTie = 1e-3f;    // a greedy token may differ where the best two are so near

// A checkpoint with records, in tests/data.
struct Toy {
  const char* folder;
  int prompts;
  // Of a logit; measured on every level: 8e-6 at most.
  float bound;

  std::string path() const { return StrCat(ROSE_SOURCE_DIR "/tests/data/", folder); }
};
constexpr Toy kToyA{"toy-a", 7, 2e-5f};
constexpr Toy kQwen{"qwen3-moe-toy", 5, 2e-5f};
constexpr Toy kQwenFp8{"qwen3-moe-toy-fp8", 5, 2e-5f};

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

void CheckPrompt(const Toy& toy, std::unique_ptr<OpSet> ops, const std::string& prompt) {
  const Golden golden(toy.path() + "/golden.safetensors");
  LoadedModel loaded = LoadModel(toy.path(), std::move(ops), /*threads=*/1, {}).value();
  const std::vector<int32_t> tokens = golden.Integers(prompt + ".tokens");
  const std::vector<int32_t> positions = golden.Integers(prompt + ".positions");
  const std::vector<int32_t> greedy = golden.Integers(prompt + ".greedy_f32");
  const std::vector<float> gaps = golden.Floats(prompt + ".greedy_gap_f32");
  ASSERT_EQ(gaps.size(), greedy.size());
  const int64_t vocab = loaded.model->info().vocab;
  auto runner =
      StepRunner::Create(*loaded.model, *loaded.ops, 1, std::ssize(tokens) + std::ssize(greedy))
          .value();

  std::vector<float> logits = PromptLogits(*runner, tokens, positions);
  const std::vector<float> expected = golden.Floats(prompt + ".logits_f32");
  ASSERT_EQ(logits.size(), expected.size());
  float worst = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    ASSERT_FALSE(std::isnan(logits[i])) << i;
    worst = std::max(worst, std::fabs(logits[i] - expected[i]));
  }
  EXPECT_LT(worst, toy.bound);
  std::printf("%s: largest difference of a logit %.1e\n", prompt.c_str(), worst);

  ASSERT_EQ(positions.back(), static_cast<int32_t>(tokens.size()) - 1);
  const float* last = logits.data() + logits.size() - vocab;
  for (size_t i = 0; i < greedy.size(); ++i) {
    const int32_t token = Largest(last, vocab);
    if (token != greedy[i]) {
      ASSERT_LE(gaps[i], kTie) << "greedy token " << i << " is " << token << ", not " << greedy[i];
      return;
    }
    const SequenceTokens part{0, {&token, 1}};
    const int32_t row = 0;
    last = runner->Run({&part, 1}, {&row, 1}).data<float>();
  }
}

// Test suites by toy: plain ops, and cpu-fast at every level of instructions with three threads,
// more than there is work for.
class Reference : public testing::TestWithParam<std::tuple<Toy, int>> {};
class Fast : public testing::TestWithParam<std::tuple<Toy, CpuIsa, int>> {};

TEST_P(Reference, Cpu) {
  const auto& [toy, prompt] = GetParam();
  CheckPrompt(toy, std::make_unique<CpuOps>(), StrCat("p", prompt));
}

TEST_P(Fast, Exact) {
  const auto& [toy, isa, prompt] = GetParam();
  CheckPrompt(toy, std::make_unique<CpuFastOps>(CpuFastConfig{.threads = 3, .isa = isa}),
              StrCat("p", prompt));
}

std::string LevelName(const testing::TestParamInfo<std::tuple<Toy, CpuIsa, int>>& info) {
  return StrCat(CpuIsaName(std::get<1>(info.param)), "_p", std::get<2>(info.param));
}

#define ROSE_GOLDEN_TESTS(name, toy)                                                               \
  INSTANTIATE_TEST_SUITE_P(name, Reference,                                                        \
                           testing::Combine(testing::Values(toy), testing::Range(0, toy.prompts)), \
                           [](const auto& info) { return StrCat("p", std::get<1>(info.param)); }); \
  INSTANTIATE_TEST_SUITE_P(                                                                        \
      name, Fast,                                                                                  \
      testing::Combine(testing::Values(toy), testing::ValuesIn(AvailableCpuIsas()),                \
                       testing::Range(0, toy.prompts)),                                            \
      LevelName)

ROSE_GOLDEN_TESTS(ToyA, kToyA);
ROSE_GOLDEN_TESTS(Qwen3Moe, kQwen);
ROSE_GOLDEN_TESTS(Qwen3MoeFp8, kQwenFp8);

}  // namespace
}  // namespace rose
