#include "kernels/gemm/gemm.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

#include "base/check.h"
#include "device/cuda_check.h"
#include "kernels/on_device.h"
#include "ops/expert_math.h"
#include "tensor/weight.h"

namespace rose {
namespace {

std::vector<Bf16> Random(int64_t size, float spread, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<Bf16> values(size);
  for (Bf16& value : values) value = ToBf16(normal(random));
  return values;
}

constexpr int64_t kGuards =
    64;  // elements before and behind the output, NaN like the output before

// What `launch` writes to its argument: F32 [tokens, n].
template <typename LaunchRows>
std::vector<float> Rows(int64_t tokens, int64_t n, LaunchRows launch) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const OnDevice<float> out(std::vector<float>(tokens * n + 2 * kGuards, nan));
  launch(out.data() + kGuards);
  const std::vector<float> all = out.ToHost();
  for (int64_t i = 0; i < kGuards; ++i) {
    EXPECT_TRUE(std::isnan(all[i])) << "before the output: " << i;
    EXPECT_TRUE(std::isnan(all[all.size() - 1 - i])) << "behind the output: " << i;
  }
  return {all.begin() + kGuards, all.end() - kGuards};
}

class OnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (CudaDevices() == 0) GTEST_SKIP() << "no GPU";
  }
};

// tokens, n, k, elements between rows of x
using Size = std::tuple<int64_t, int64_t, int64_t, int64_t>;

class GemmBf16 : public OnGpu, public testing::WithParamInterface<Size> {};

TEST_P(GemmBf16, EqualsDoubleAndItselfInAnyCompany) {
  const auto [tokens, n, k, gap] = GetParam();
  const int64_t stride = k + gap;
  const std::vector<Bf16> x = Random(tokens * stride, 1, 1), weight = Random(n * k, 0.05f, 2),
                          bias = Random(n, 1, 3);
  const OnDevice<Bf16> x_device(x), weight_device(weight), bias_device(bias);
  const auto rows = [&](int64_t first, int64_t count) {
    return Rows(count, n, [&](float* out) {
      LaunchGemmBf16({.x = x_device.data() + first * stride,
                      .weight = weight_device.data(),
                      .bias = bias_device.data(),
                      .out = out,
                      .out_type = DType::kF32,
                      .x_stride = stride,
                      .tokens = count,
                      .n = n,
                      .k = k},
                     /*stream=*/nullptr);
    });
  };
  const std::vector<float> together = rows(0, tokens);
  std::mt19937_64 random(4);
  for (int i = 0; i < 200 && tokens > 0; ++i) {
    const int64_t row = random() % tokens, column = random() % n;
    double want = ToFloat(bias[column]), size = std::abs(want);
    for (int64_t j = 0; j < k; ++j) {
      const double product = double{ToFloat(x[row * stride + j])} * ToFloat(weight[column * k + j]);
      want += product;
      size += std::abs(product);
    }
    ASSERT_NEAR(together[row * n + column], want, 2e-6 * size) << row << " " << column;
  }
  // The same bits by every kernel: these numbers of tokens go to different ones.
  for (const int64_t count : {1,  7,   8,   9,   16,  17,  31,  32,  33,  63,  64,
                              65, 127, 128, 129, 255, 256, 257, 300, 511, 513, 2048}) {
    if (count >= tokens) break;
    const std::vector<float> apart = rows(tokens - count, count);
    ASSERT_EQ(
        0, std::memcmp(apart.data(), &together[(tokens - count) * n], apart.size() * sizeof(float)))
        << count << " rows apart";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, GemmBf16,
    testing::Values(Size{0, 64, 64, 0}, Size{1, 1, 8, 0}, Size{7, 37, 24, 8}, Size{64, 192, 320, 0},
                    Size{65, 320, 192, 0}, Size{257, 131, 520, 16}, Size{129, 32, 2880, 0},
                    Size{400, 5120, 2880, 0}, Size{400, 2880, 4096, 0}, Size{3, 20001, 1160, 0},
                    // More than eight tiles of a cluster's 256 tokens.
                    Size{2305, 131, 520, 16}, Size{4099, 65, 64, 0},
                    // Routers, the embedding's columns, Qwen3's products.
                    Size{70, 32, 2880, 0}, Size{70, 128, 2880, 0}, Size{5, 201088, 2880, 0},
                    Size{67, 201088, 64, 0}, Size{129, 5120, 2048, 0}, Size{129, 2048, 4096, 0},
                    Size{70, 128, 2048, 0},
                    // A tile's columns less and more one.
                    Size{300, 63, 72, 0}, Size{300, 65, 504, 0}, Size{300, 95, 512, 0},
                    Size{300, 97, 520, 0}, Size{300, 159, 64, 0}, Size{300, 161, 56, 0},
                    Size{300, 191, 1016, 0}, Size{300, 193, 1024, 0},
                    // Tiles whose chunks two CTAs share, k of an odd and an even number of them.
                    Size{200, 1001, 3000, 8}, Size{130, 95, 3592, 0}, Size{130, 49, 4096, 0},
                    Size{130, 1536, 4104, 0}));

// So small that compute-sanitizer's racecheck ends (scripts/gpu_sanitize.sh): every kernel and
// shape of tile.
INSTANTIATE_TEST_SUITE_P(Small, GemmBf16,
                         testing::Values(Size{66, 37, 24, 8}, Size{300, 65, 520, 0},
                                         Size{257, 161, 64, 0}, Size{70, 100, 1544, 0}));

class GemmBf16RoundsItsSumOnce : public OnGpu, public testing::WithParamInterface<int64_t> {};

TEST_P(GemmBf16RoundsItsSumOnce, AtAnyNumberOfTokens) {
  constexpr int64_t kTokens = 300, kN = 200;
  const int64_t k = GetParam();
  const OnDevice<Bf16> x(Random(kTokens * k, 1, 1)), weight(Random(kN * k, 1, 2)),
      bias(Random(kN, 30, 3));
  for (const int64_t tokens : {int64_t{5}, int64_t{70}, kTokens}) {
    GemmParams params{.x = x.data(),
                      .weight = weight.data(),
                      .bias = bias.data(),
                      .x_stride = k,
                      .tokens = tokens,
                      .n = kN,
                      .k = k};
    const std::vector<float> exact = Rows(tokens, kN, [&](float* out) {
      params.out = out;
      params.out_type = DType::kF32;
      LaunchGemmBf16(params, nullptr);
    });
    const OnDevice<Bf16> out(std::vector<Bf16>(tokens * kN, Bf16{0x7fc0}));
    params.out = out.data();
    params.out_type = DType::kBf16;
    LaunchGemmBf16(params, nullptr);
    const std::vector<Bf16> rounded = out.ToHost();
    for (int64_t i = 0; i < tokens * kN; ++i) ASSERT_EQ(rounded[i], ToBf16(exact[i])) << i;
  }
}

// Of the second, tiles of few tokens are shared by two CTAs.
INSTANTIATE_TEST_SUITE_P(Columns, GemmBf16RoundsItsSumOnce, testing::Values(1032, 3000));

// tokens, n, k, block_rows, woven
using Fp8Size = std::tuple<int64_t, int64_t, int64_t, int, int>;

class GemmFp8Block : public OnGpu, public testing::WithParamInterface<Fp8Size> {};

TEST_P(GemmFp8Block, EqualsDoubleAndItselfInAnyCompany) {
  const auto [tokens, n, k, block_rows, woven] = GetParam();
  WeightFormat format = kFp8BlockFormat;
  format.block_rows = block_rows;
  format.woven = woven;
  const int64_t blocks = (k + 127) / 128;
  std::mt19937_64 random(5);
  std::vector<E4m3> weight(n * k);
  for (E4m3& value : weight) {
    do value.bits = static_cast<uint8_t>(random());
    while ((value.bits & 0x7f) == 0x7f);  // NaN
  }
  std::vector<float> scales(format.ScaleRows(n) * blocks);
  for (float& scale : scales) scale = 0.001f * static_cast<float>(1 + random() % 100);
  const std::vector<Bf16> x = Random(tokens * k, 1, 1), bias = Random(n, 1, 3);
  const OnDevice<Bf16> x_device(x), bias_device(bias);
  const OnDevice<E4m3> weight_device(weight);
  const OnDevice<float> scales_device(scales);
  const auto rows = [&](int64_t first, int64_t count) {
    return Rows(count, n, [&](float* out) {
      LaunchGemmFp8Block({.x = x_device.data() + first * k,
                          .weight = weight_device.data(),
                          .scales = scales_device.data(),
                          .bias = bias_device.data(),
                          .out = out,
                          .out_type = DType::kF32,
                          .x_stride = k,
                          .tokens = count,
                          .n = n,
                          .k = k,
                          .block_rows = block_rows,
                          .woven = woven},
                         /*stream=*/nullptr);
    });
  };
  const std::vector<float> together = rows(0, tokens);
  for (int i = 0; i < 200 && tokens > 0; ++i) {
    const int64_t row = random() % tokens, column = random() % n;
    double want = ToFloat(bias[column]), size = std::abs(want);
    for (int64_t j = 0; j < k; ++j) {
      const double product = double{ToFloat(x[row * k + j])} * ToFloat(weight[column * k + j]) *
                             scales[format.ScaleRow(column) * blocks + j / 128];
      want += product;
      size += std::abs(product);
    }
    ASSERT_NEAR(together[row * n + column], want, 2e-6 * size) << row << " " << column;
  }
  for (const int64_t count : {1, 7, 8, 9, 16, 17, 31, 32, 33, 40, 63, 64, 65, 127, 129}) {
    if (count >= tokens) break;
    const std::vector<float> apart = rows(tokens - count, count);
    ASSERT_EQ(
        0, std::memcmp(apart.data(), &together[(tokens - count) * n], apart.size() * sizeof(float)))
        << count << " rows apart";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, GemmFp8Block,
    testing::Values(Fp8Size{0, 64, 64, 128, 1}, Fp8Size{1, 1, 16, 128, 1},
                    Fp8Size{66, 136, 144, 64, 1}, Fp8Size{3, 160, 400, 32, 2},
                    Fp8Size{130, 260, 208, 128, 2}, Fp8Size{20, 5120, 2048, 128, 1},
                    Fp8Size{70, 2048, 4096, 128, 1}, Fp8Size{131, 63, 112, 128, 1},
                    Fp8Size{131, 65, 128, 128, 1}, Fp8Size{131, 127, 144, 128, 1},
                    Fp8Size{131, 129, 528, 128, 1}));

INSTANTIATE_TEST_SUITE_P(Small, GemmFp8Block, testing::Values(Fp8Size{66, 66, 144, 64, 1}));

struct RouteSize {
  int64_t tokens;
  int experts, top_k;
  int64_t hidden = 320;
};

class Route : public OnGpu, public testing::WithParamInterface<RouteSize> {};

TEST_P(Route, ChoosesAsTheHostDoes) {
  const auto [tokens, experts, top_k, hidden] = GetParam();
  std::vector<Bf16> weight = Random(experts * hidden, 0.05f, 2), bias = Random(experts, 0.1f, 3);
  // Two experts that always tie, one that never has a number, and two in the same lane that tie.
  if (experts > 70) {
    std::copy_n(weight.begin() + 2 * hidden, hidden, weight.begin() + 66 * hidden);
    bias[2] = bias[66] = ToBf16(0.7f);
  }
  if (experts > 4) {
    std::copy_n(weight.begin(), hidden, weight.begin() + 3 * hidden);
    bias[3] = bias[0];
    bias[4] = ToBf16(std::numeric_limits<float>::quiet_NaN());
  }
  const OnDevice<Bf16> x(Random(tokens * hidden, 1, 1)), weight_device(weight), bias_device(bias);
  const OnDevice<float> logits(std::vector<float>(tokens * experts, -1)),
      weights(std::vector<float>(tokens * top_k, -1));
  const OnDevice<int32_t> chosen(std::vector<int32_t>(tokens * top_k, -1));
  const auto route = [&](int64_t first, int64_t count) {
    LaunchRoute({.x = x.data() + first * hidden,
                 .weight = weight_device.data(),
                 .bias = bias_device.data(),
                 .logits = logits.data(),
                 .chosen = chosen.data(),
                 .weights = weights.data(),
                 .x_stride = hidden,
                 .tokens = count,
                 .hidden = hidden,
                 .experts = experts,
                 .top_k = top_k},
                /*stream=*/nullptr);
  };
  route(0, tokens);
  const std::vector<float> from = logits.ToHost(), got_weights = weights.ToHost();
  const std::vector<int32_t> got = chosen.ToHost();
  std::vector<int32_t> want(top_k);
  std::vector<float> want_weights(top_k);
  for (int64_t token = 0; token < tokens; ++token) {
    SelectExperts({&from[token * experts], static_cast<size_t>(experts)}, want, want_weights);
    for (int i = 0; i < top_k; ++i) {
      ASSERT_EQ(got[token * top_k + i], want[i]) << "token " << token << " rank " << i;
      if (std::isnan(want_weights[i])) continue;
      ASSERT_NEAR(got_weights[token * top_k + i], want_weights[i], 1e-6) << token << " " << i;
    }
  }
  // The last tokens apart: other kernels, the same bits.
  const int64_t last = std::min<int64_t>(tokens, 11);
  route(tokens - last, last);
  const std::vector<float> apart = logits.ToHost();
  ASSERT_EQ(0, std::memcmp(apart.data(), &from[(tokens - last) * experts],
                           static_cast<size_t>(last * experts) * sizeof(float)));
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, Route,
    testing::Values(RouteSize{0, 32, 4}, RouteSize{1, 1, 1}, RouteSize{5, 8, 7},
                    RouteSize{70, 32, 4}, RouteSize{131, 128, 8}, RouteSize{131, 128, 4},
                    RouteSize{7, 31, 31}, RouteSize{7, 33, 32}, RouteSize{65, 127, 8},
                    RouteSize{65, 129, 8}, RouteSize{3, 1000, 32}, RouteSize{3, 1024, 1},
                    RouteSize{67, 32, 4, 2880}, RouteSize{81, 128, 4, 2880},
                    RouteSize{66, 41, 3, 1352}, RouteSize{65, 16, 2, 6144},
                    RouteSize{66, 20, 2, 6152}, RouteSize{1, 128, 4, 2880}, RouteSize{8, 17, 3},
                    RouteSize{9, 15, 2}, RouteSize{63, 32, 4, 512}, RouteSize{64, 128, 8, 2048},
                    RouteSize{65, 32, 4, 520}));

// Zeros of both signs are one number; and logits whose exponentials would be infinite.
class RouteTies : public OnGpu, public testing::WithParamInterface<float> {};

TEST_P(RouteTies, GoToTheLowerIndexWithEqualWeights) {
  constexpr int kExperts = 8, kHidden = 8;
  std::vector<Bf16> bias(kExperts, ToBf16(GetParam()));
  for (const int expert : {0, 1, 4}) bias[expert] = GetParam() == 0 ? ToBf16(-0.0f) : bias[3];
  bias[2] = ToBf16(-1.0f);
  std::vector<Bf16> minus(kExperts * kHidden, ToBf16(-0.0f));
  const OnDevice<Bf16> x(std::vector<Bf16>(kHidden, ToBf16(0.0f))), weight(minus), biases(bias);
  const OnDevice<float> logits(std::vector<float>(kExperts, -1)),
      weights(std::vector<float>(4, -1));
  const OnDevice<int32_t> chosen(std::vector<int32_t>(4, -1));
  LaunchRoute({.x = x.data(),
               .weight = weight.data(),
               .bias = biases.data(),
               .logits = logits.data(),
               .chosen = chosen.data(),
               .weights = weights.data(),
               .x_stride = kHidden,
               .tokens = 1,
               .hidden = kHidden,
               .experts = kExperts,
               .top_k = 4},
              /*stream=*/nullptr);
  EXPECT_EQ(chosen.ToHost(), (std::vector<int32_t>{0, 1, 3, 4}));
  EXPECT_EQ(weights.ToHost(), std::vector<float>(4, 0.25f));
}

INSTANTIATE_TEST_SUITE_P(Logits, RouteTies, testing::Values(0.0f, 300.0f));

TEST(GemmLaunch, RefusesRowsThatItCannotRead) {
  EXPECT_THROW(LaunchGemmBf16({.x_stride = 16, .tokens = 1, .n = 1, .k = 12}, nullptr),
               CheckFailure);
  EXPECT_THROW(LaunchGemmBf16({.x_stride = 8, .tokens = 1, .n = 1, .k = 16}, nullptr),
               CheckFailure);
  EXPECT_THROW(LaunchGemmFp8Block({.x_stride = 24, .tokens = 1, .n = 1, .k = 24}, nullptr),
               CheckFailure);
  EXPECT_THROW(LaunchRoute({.tokens = 1, .hidden = 64, .experts = 4, .top_k = 5}, nullptr),
               CheckFailure);
}

}  // namespace
}  // namespace rose
