#include "engine/host_sampling.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace rose {
namespace {

constexpr int64_t kVocab = 20'000, kRows = 37, kFrom = 3;

class HostSamplingTest : public testing::Test {
 protected:
  HostSamplingTest() : rows_(kRows * kVocab), history_(kFrom + kRows + 1) {
    std::mt19937_64 random(1);
    std::normal_distribution<float> normal(0, 3);
    for (float& logit : rows_) logit = normal(random);
    for (int32_t& id : history_) id = static_cast<int32_t>(random() % kVocab);
    plan_ = {.id = 9,
             .history = history_,
             .prompt_tokens = std::ssize(history_),
             .score_from = kFrom,
             .scored = kRows,
             .score_top = 4};
  }

  void Spoil(int64_t row) {
    std::fill_n(rows_.begin() + row * kVocab, kVocab, std::numeric_limits<float>::quiet_NaN());
  }

  std::vector<float> rows_;
  std::vector<int32_t> history_;
  SeqPlan plan_;
};

TEST_F(HostSamplingTest, ScoresTheSameOnAnyNumberOfThreads) {
  const SeqResult alone = HostSampling().Run(plan_, rows_, kVocab);
  ASSERT_EQ(std::ssize(alone.scored), kRows);
  for (int64_t row = 0; row < kRows; ++row) {
    const std::span<const float> logits(rows_.data() + row * kVocab, kVocab);
    const SampledToken token = Sampler().Score(logits, history_[kFrom + row + 1], 4).value();
    EXPECT_EQ(alone.scored[row].id, token.id);
    EXPECT_EQ(alone.scored[row].logprob, token.logprob);
  }
  HostSampling sampling(5);
  for (int round = 0; round < 20; ++round) {
    const SeqResult together = sampling.Run(plan_, rows_, kVocab);
    ASSERT_EQ(std::ssize(together.scored), kRows);
    for (int64_t row = 0; row < kRows; ++row) {
      const SampledToken &one = alone.scored[row], &other = together.scored[row];
      EXPECT_EQ(other.id, one.id);
      EXPECT_EQ(other.logprob, one.logprob);
      ASSERT_EQ(other.top.size(), 4u);
      for (size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(other.top[i].id, one.top[i].id);
        EXPECT_EQ(other.top[i].logprob, one.top[i].logprob);
      }
    }
  }
}

TEST_F(HostSamplingTest, EndsAtTheFirstRowThatFails) {
  Spoil(20);
  Spoil(30);
  for (const int threads : {1, 5}) {
    const SeqResult result = HostSampling(threads).Run(plan_, rows_, kVocab);
    EXPECT_EQ(result.scored.size(), 20u);
    EXPECT_EQ(result.error, "request 9: position 23: all logits are NaN or minus infinity");
  }
}

}  // namespace
}  // namespace rose
