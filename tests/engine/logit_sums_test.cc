#include "engine/logit_sums.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace rose {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

// About what a model gives, with what it should not among it.
std::vector<float> MakeLogits(int64_t size, bool with_odd_ones) {
  std::mt19937_64 random(size);
  std::normal_distribution<float> normal(0, 4);
  std::vector<float> logits(size);
  for (float& logit : logits) {
    logit = normal(random);
    if (with_odd_ones && random() % 5 == 0) logit = random() % 2 == 0 ? kNan : -kInf;
  }
  return logits;
}

float Largest(const std::vector<float>& logits) {
  float largest = kExcludedLogit;
  for (float logit : logits) largest = std::max(largest, SaneLogit(logit));
  return largest;
}

TEST(LogitSums, AreThoseOfALoopOverAll) {
  for (const bool with_odd_ones : {false, true}) {
    for (const int64_t size : {1, 7, 8, 9, 63, 64, 65, 1000, 201'088}) {
      std::vector<float> logits = MakeLogits(size, with_odd_ones);
      logits[size / 2] = 3;
      const float largest = Largest(logits);
      long double expected = 0;
      for (float logit : logits) expected += std::exp((long double){SaneLogit(logit) - largest});
      const double sum = SumOfExponentials(CpuIsa::kScalar, logits, largest);
      EXPECT_NEAR(static_cast<double>(sum / expected), 1, 3e-14) << size;
      for (const CpuIsa isa : AvailableCpuIsas()) {
        EXPECT_EQ(SumOfExponentials(isa, logits, largest), sum) << CpuIsaName(isa) << size;
        std::vector<float> of_blocks;
        LargestOfBlocks(isa, logits, of_blocks);
        ASSERT_EQ(std::ssize(of_blocks), (size + kLogitBlock - 1) / kLogitBlock);
        for (int64_t block = 0; block < std::ssize(of_blocks); ++block) {
          const auto begin = logits.begin() + block * kLogitBlock;
          const auto end = logits.begin() + std::min(size, (block + 1) * kLogitBlock);
          EXPECT_EQ(of_blocks[block], Largest({begin, end})) << CpuIsaName(isa) << size;
        }
      }
    }
  }
}

TEST(LogitSums, CountInfinitiesAsTheLargestNumberAndNothing) {
  const float most = std::numeric_limits<float>::max();
  for (const CpuIsa isa : AvailableCpuIsas()) {
    EXPECT_EQ(SumOfExponentials(isa, std::vector{kInf, 0.f, most, -most, -kInf, kNan}, most), 2);
    EXPECT_EQ(SumOfExponentials(isa, std::vector{kNan, 0.f, -1e4f, -kInf}, 0), 1);
    std::vector<float> largest;
    LargestOfBlocks(isa, std::vector{0.f, kInf, kNan}, largest);
    EXPECT_EQ(largest, std::vector{most});
    LargestOfBlocks(isa, std::vector{kNan, -kInf}, largest);
    EXPECT_EQ(largest, std::vector{-kInf});
  }
}

}  // namespace
}  // namespace rose
