#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <tuple>
#include <vector>

#include "base/check.h"
#include "device/cuda_check.h"
#include "kernels/norm/norm.h"
#include "kernels/on_device.h"
#include "tensor/dtype.h"

namespace rose {
namespace {

constexpr uint16_t kGuard = 0x7fa5;  // a NaN that no kernel writes
constexpr int64_t kGuards = 64;      // elements before and behind the output

std::vector<float> Random(int64_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> values(size);
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<Bf16> RandomBf16(int64_t size, uint64_t seed) {
  std::vector<Bf16> values;
  for (float value : Random(size, seed)) values.push_back(ToBf16(value));
  return values;
}

class RmsNorm : public testing::TestWithParam<std::tuple<int64_t, int, bool>> {
 protected:
  void SetUp() override {
    if (CudaDevices() == 0) GTEST_SKIP() << "no GPU";
  }
};

TEST_P(RmsNorm, EqualsDoubleUpToTheOneRounding) {
  const auto [tokens, hidden, has_delta] = GetParam();
  constexpr float kEps = 1e-5f;
  std::vector<float> residual = Random(tokens * hidden, 1);
  std::vector<Bf16> delta = RandomBf16(tokens * hidden, 2);
  const std::vector<Bf16> weight = RandomBf16(hidden, 3);
  // Rows so small that eps counts, and one of zeros.
  for (int64_t i = 0; i < tokens * hidden; ++i) {
    const int64_t row = i / hidden % 4;
    const float scale = row == 1 ? 1e-3f : row == 2 ? 0.0f : 1.0f;
    residual[i] *= scale;
    delta[i] = ToBf16(ToFloat(delta[i]) * scale);
  }
  const OnDevice residual_device(residual);
  const OnDevice delta_device(delta), weight_device(weight),
      out_device(std::vector<Bf16>(tokens * hidden + 2 * kGuards, Bf16{kGuard}));

  LaunchRmsNorm({.residual = residual_device.data(),
                 .delta = has_delta ? delta_device.data() : nullptr,
                 .weight = weight_device.data(),
                 .out = out_device.data() + kGuards,
                 .tokens = tokens,
                 .hidden = hidden,
                 .eps = kEps},
                /*stream=*/nullptr);
  const std::vector<Bf16> out = out_device.ToHost();
  const std::vector<float> sum = residual_device.ToHost();

  for (int64_t i = 0; i < kGuards; ++i) {
    ASSERT_EQ(out[i].bits, kGuard) << "before the output: " << i;
    ASSERT_EQ(out[out.size() - 1 - i].bits, kGuard) << "behind the output: " << i;
  }
  for (int64_t i = 0; i < tokens * hidden; ++i) {
    ASSERT_EQ(sum[i], has_delta ? residual[i] + ToFloat(delta[i]) : residual[i]) << i;
  }
  for (int64_t token = 0; token < tokens; ++token) {
    double squares = 0;
    for (int i = 0; i < hidden; ++i) squares += std::pow(double{sum[token * hidden + i]}, 2.0);
    const double scale = 1 / std::sqrt(squares / hidden + kEps);
    for (int i = 0; i < hidden; ++i) {
      const double want = sum[token * hidden + i] * scale * ToFloat(weight[i]);
      const float got = ToFloat(out[kGuards + token * hidden + i]);
      // Half a unit of bf16's 8 bits, and a little for the sum in f32.
      ASSERT_NEAR(got, want, std::abs(want) * (1.0 / 256 + 1e-5)) << "token " << token << " " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, RmsNorm,
                         testing::Combine(testing::Values<int64_t>(0, 1, 3, 257),
                                          testing::Values(8, 192, 320, 2048, 2880, 3080, 8192),
                                          testing::Bool()));

TEST(RmsNormLaunch, RefusesRowsThatItCannotRead) {
  EXPECT_THROW(LaunchRmsNorm({.tokens = 1, .hidden = 12}, nullptr), CheckFailure);
  EXPECT_THROW(LaunchRmsNorm({.tokens = 1, .hidden = 8200}, nullptr), CheckFailure);
}

}  // namespace
}  // namespace rose
