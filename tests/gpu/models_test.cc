// Must: the toys on the GPU against the records of transformers in f32: toy-a no further from it
// than transformers in bf16, those of Qwen3-MoE within 2 % of the logits' spread, and the same
// greedy tokens where the record is not a close call. And steps of a model bit for bit the same
// alone, batched and chunked.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

#include "models/golden.h"
#include "models/load.h"
#include "models/step_runner.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/op_sets.h"

namespace rose {
namespace {

constexpr double kMostOfBf16 = 1.25;    // RMS distance, in those of the recorded bf16 logits
constexpr float kLargest = 0.2f;        // difference of a logit
constexpr float kClearGap = 0.15f;      // of the two best logits, beyond which the token must agree
constexpr double kMostOfSpread = 0.02;  // RMS distance, in standard deviations of the logits
const std::string kToyA = ROSE_SOURCE_DIR "/tests/data/toy-a";

double RootMeanSquare(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(double{a[i]} - b[i], 2);
  return std::sqrt(sum / static_cast<double>(a.size()));
}

LoadedModel LoadOnGpu(const std::string& folder) {
  return LoadModel(folder, CreateCudaOps({}).value(), /*threads=*/1, {}).value();
}

// Logits [positions, vocab] of sequence 0, run in chunks.
std::vector<float> PromptLogits(StepRunner& runner, std::span<const int32_t> tokens,
                                std::span<const int32_t> positions, int64_t chunk) {
  std::vector<float> all;
  const int64_t end = std::ssize(tokens);
  for (int64_t start = 0; start < end; start += chunk) {
    const int64_t size = std::min(chunk, end - start);
    std::vector<int32_t> rows;
    for (int32_t position : positions) {
      if (position >= start && position < start + size) {
        rows.push_back(static_cast<int32_t>(position - start));
      }
    }
    const SequenceTokens part{0, tokens.subspan(start, size)};
    const Tensor logits = runner.Run({&part, 1}, rows);
    all.insert(all.end(), logits.data<float>(), logits.data<float>() + logits.elements());
  }
  return all;
}

double StandardDeviation(const std::vector<float>& values) {
  double sum = 0, squares = 0;
  for (float value : values) sum += value, squares += double{value} * value;
  const auto n = static_cast<double>(values.size());
  return std::sqrt(squares / n - sum / n * (sum / n));
}

// A toy and one of its recorded prompts.
class GpuGolden : public testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  void SetUp() override {
    if (!IsCudaThere()) GTEST_SKIP() << "no GPU";
  }
};

TEST_P(GpuGolden, IsAsNearToTheRecordAsBf16MayBe) {
  const auto& [folder, number] = GetParam();
  const std::string prompt = StrCat("p", number);
  const Golden golden(folder + "/golden.safetensors");
  const LoadedModel loaded = LoadOnGpu(folder);
  const std::vector<int32_t> tokens = golden.Integers(prompt + ".tokens");
  const std::vector<int32_t> positions = golden.Integers(prompt + ".positions");
  const std::vector<int32_t> greedy = golden.Integers(prompt + ".greedy_f32");
  const std::vector<float> gaps = golden.Floats(prompt + ".greedy_gap_f32");
  const int64_t vocab = loaded.model->info().vocab;
  auto runner =
      StepRunner::Create(*loaded.model, *loaded.ops, 1, std::ssize(tokens) + std::ssize(greedy))
          .value();
  const std::vector<float> logits = PromptLogits(*runner, tokens, positions, 512);
  const std::vector<float> f32 = golden.Floats(prompt + ".logits_f32");
  ASSERT_EQ(logits.size(), f32.size());
  float largest = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    ASSERT_FALSE(std::isnan(logits[i])) << i;
    largest = std::max(largest, std::fabs(logits[i] - f32[i]));
  }
  const double distance = RootMeanSquare(logits, f32);
  if (folder == kToyA) {
    const double allowed =
        kMostOfBf16 * RootMeanSquare(golden.Floats(prompt + ".logits_bf16"), f32);
    std::printf("%s: RMS distance %.5f of %.5f; largest difference %.4f\n", prompt.c_str(),
                distance, allowed, largest);
    EXPECT_LE(distance, allowed);
    EXPECT_LE(largest, kLargest);
  } else {
    const double allowed = kMostOfSpread * StandardDeviation(f32);
    std::printf("%s %s: RMS distance %.5f of %.5f; largest difference %.4f\n", folder.c_str(),
                prompt.c_str(), distance, allowed, largest);
    EXPECT_LE(distance, allowed);
  }

  std::vector<float> last(logits.end() - vocab, logits.end());
  for (size_t i = 0; i < greedy.size(); ++i) {
    const auto best =
        static_cast<int32_t>(std::max_element(last.begin(), last.end()) - last.begin());
    if (gaps[i] > kClearGap) {
      EXPECT_EQ(best, greedy[i]) << "token " << i << ", gap " << gaps[i];
    }
    const SequenceTokens part{0, {&greedy[i], 1}};
    const int32_t row = 0;
    last = ToVector(runner->Run({&part, 1}, {&row, 1}));
  }
}

INSTANTIATE_TEST_SUITE_P(ToyA, GpuGolden,
                         testing::Combine(testing::Values(kToyA), testing::Range(0, 7)));
INSTANTIATE_TEST_SUITE_P(
    Qwen, GpuGolden,
    testing::Combine(testing::Values(ROSE_SOURCE_DIR "/tests/data/qwen3-moe-toy",
                                     ROSE_SOURCE_DIR "/tests/data/qwen3-moe-toy-fp8"),
                     testing::Range(0, 5)));

class GpuModel : public testing::TestWithParam<std::string> {};

TEST_P(GpuModel, GivesTheSameAloneBatchedAndChunked) {
  if (!IsCudaThere()) GTEST_SKIP() << "no GPU";
  const LoadedModel loaded = LoadOnGpu(std::string(ROSE_SOURCE_DIR "/") + GetParam());
  const int64_t vocab = loaded.model->info().vocab;
  const std::vector<int64_t> lengths = {1, 63, 130, 200, 333, 700};
  std::mt19937_64 random(3);
  std::vector<std::vector<int32_t>> tokens;
  std::vector<std::vector<float>> alone;
  auto runner = StepRunner::Create(*loaded.model, *loaded.ops, std::ssize(lengths), 1024).value();
  auto single = StepRunner::Create(*loaded.model, *loaded.ops, 1, 1024).value();
  for (int64_t length : lengths) {
    tokens.emplace_back();
    std::vector<int32_t> all_rows;
    for (int64_t i = 0; i < length; ++i) {
      tokens.back().push_back(static_cast<int32_t>(random() % vocab));
      all_rows.push_back(static_cast<int32_t>(i));
    }
    alone.push_back(PromptLogits(*single, tokens.back(), all_rows, 2048));
    ExpectSameBits(
        PromptLogits((single->Truncate(0, 0), *single), tokens.back(), all_rows, 77).data(),
        alone.back().data(), std::ssize(alone.back()));
    single->Truncate(0, 0);
  }
  // Steps of random parts of all sequences.
  for (int run = 0; run < 20; ++run) {
    SCOPED_TRACE(testing::Message() << "run " << run);
    for (size_t s = 0; s < lengths.size(); ++s) runner->Truncate(static_cast<int64_t>(s), 0);
    for (bool is_left = true; is_left;) {
      is_left = false;
      std::vector<SequenceTokens> parts;
      std::vector<int32_t> rows;
      std::vector<std::pair<size_t, int64_t>> wanted;  // sequence and position of each logit row
      int32_t row = 0;
      for (size_t s = 0; s < lengths.size(); ++s) {
        const int64_t done = runner->length(static_cast<int64_t>(s));
        if (done == lengths[s] || random() % 3 == 0) {
          is_left |= done < lengths[s];
          continue;
        }
        const int64_t most = random() % 2 == 0 ? 1 + random() % 3 : 1 + random() % 200;
        const int64_t size = std::min(most, lengths[s] - done);
        parts.push_back({static_cast<int64_t>(s), std::span(tokens[s]).subspan(done, size)});
        row += static_cast<int32_t>(size);
        rows.push_back(row - 1);
        wanted.emplace_back(s, done + size - 1);
        is_left |= done + size < lengths[s];
      }
      if (parts.empty()) continue;
      const Tensor logits = runner->Run(parts, rows);
      for (size_t i = 0; i < wanted.size(); ++i) {
        const auto& [s, position] = wanted[i];
        SCOPED_TRACE(testing::Message() << "sequence " << s << " position " << position);
        ExpectSameBits(logits.data<float>() + i * vocab, alone[s].data() + position * vocab, vocab);
        if (HasFatalFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GpuModel,
                         testing::Values("tests/data/toy-a", "models/rosebud",
                                         "tests/data/qwen3-moe-toy",
                                         "tests/data/qwen3-moe-toy-fp8"));

}  // namespace
}  // namespace rose
