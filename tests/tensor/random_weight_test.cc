#include "tensor/random_weight.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/status.h"
#include "quant/codec.h"

namespace rose {
namespace {

struct Made {
  std::vector<uint8_t> data, scales;
  Weight weight;
};

Made Make(const RandomRecipe& recipe) {
  Made made;
  made.weight = LayOut(recipe);
  made.data.resize(made.weight.data.bytes());
  int64_t numbers = 1;
  for (int64_t size : recipe.shape) numbers *= size;
  FillRandomData(recipe, 0, numbers, made.data.data());
  const Tensor data = made.weight.data;
  made.weight.data = Tensor(made.data.data(), data.dtype(), data.shape());
  if (const Tensor scales = made.weight.scales; !scales.empty()) {
    made.scales.resize(scales.bytes());
    FillRandomScales(recipe, 0, scales.elements(), made.scales.data());
    made.weight.scales = Tensor(made.scales.data(), scales.dtype(), scales.shape());
  }
  return made;
}

std::vector<float> Decode(const Weight& weight) {
  const int64_t cols = weight.shape.back();
  const int64_t experts = weight.shape.size() == 3 ? weight.shape[0] : 1;
  const int64_t rows = weight.shape[weight.shape.size() - 2];
  std::vector<float> all(experts * rows * cols);
  for (int64_t e = 0; e < experts; ++e)
    for (int64_t row = 0; row < rows; ++row)
      DecodeRow(weight, e, row, std::span(all).subspan((e * rows + row) * cols, cols));
  return all;
}

struct Moments {
  double mean = 0, deviation = 0, kurtosis = 0;
};

Moments MomentsOf(const std::vector<float>& x) {
  Moments m;
  double fourth = 0;
  for (float v : x) m.mean += v / static_cast<double>(x.size());
  for (float v : x) {
    const double d = v - m.mean;
    m.deviation += d * d / static_cast<double>(x.size());
    fourth += d * d * d * d / static_cast<double>(x.size());
  }
  m.kurtosis = fourth / (m.deviation * m.deviation);
  m.deviation = std::sqrt(m.deviation);
  return m;
}

// The bytes are a promise: a checkpoint written by one machine equals what another makes up.
TEST(RandomWeight, BytesStayTheSame) {
  const uint64_t key = RandomKey(1, "layers.3.qkv");
  EXPECT_EQ(key, 10731420030991797376u);
  const auto first = [&](const WeightFormat& format) {
    const Made made = Make(MakeRandomRecipe(format, {2, 64}, key, 0, 0.02));
    std::string hex;
    for (int i = 0; i < 8; ++i) {
      char digits[3];
      std::snprintf(digits, sizeof(digits), "%02x", made.data[i]);
      hex += digits;
    }
    if (!made.scales.empty())
      hex += StrCat(" ", int{made.scales[0]}, " ", int{made.scales[3 % made.scales.size()]});
    return hex;
  };
  EXPECT_EQ(first(kBf16Format), "9bbb2a3d973bd2bc");
  EXPECT_EQ(first(kMxfp4Format), "b891ecc9387d4524 120 120");
  EXPECT_EQ(first(kFp8BlockFormat), "cce451d0e9f2d3e8 0 57");
}

TEST(RandomWeight, KeysDifferBySeedAndName) {
  EXPECT_NE(RandomKey(1, "layers.1.o"), RandomKey(2, "layers.1.o"));
  EXPECT_NE(RandomKey(1, "layers.1.o"), RandomKey(1, "layers.2.o"));
  EXPECT_NE(RandomKey(0, ""), RandomKey(1, ""));
}

TEST(RandomWeight, AnyPieceIsAPieceOfTheWhole) {
  for (const WeightFormat& format : {kBf16Format, kMxfp4Format, kFp8BlockFormat}) {
    const RandomRecipe recipe = MakeRandomRecipe(format, {3, 5, 96}, 77, 0, 0.1);
    const Made whole = Make(recipe);
    const int64_t numbers = 3 * 5 * 96;
    for (int64_t begin : {0, 2, 6, 8, 100, 1438, 1440}) {
      for (int64_t end = begin; end <= numbers; end += 34) {
        const int64_t from = begin * std::ssize(whole.data) / numbers;
        const int64_t to = end * std::ssize(whole.data) / numbers;
        std::vector<uint8_t> piece(to - from + 1, 0xee);
        FillRandomData(recipe, begin, end, piece.data());
        EXPECT_EQ(piece.back(), 0xee);
        piece.pop_back();
        EXPECT_TRUE(std::equal(piece.begin(), piece.end(), whole.data.begin() + from))
            << format.ToString() << " " << begin << " " << end;
      }
    }
  }
}

TEST(RandomWeight, HasTheMeanAndDeviationAskedFor) {
  for (double deviation : {0.004, 0.0186, 0.03, 0.5, 1.0}) {
    for (const WeightFormat& format : {kBf16Format, kMxfp4Format, kFp8BlockFormat}) {
      const Moments m =
          MomentsOf(Decode(Make(MakeRandomRecipe(format, {1024, 1024}, 5, 0, deviation)).weight));
      // fp8-block has 64 blocks here, each with a magnitude of its own.
      const double within = format == kFp8BlockFormat ? 0.25 : 0.02;
      EXPECT_NEAR(m.deviation / deviation, 1, within) << format.ToString() << " " << deviation;
      EXPECT_NEAR(m.mean / deviation, 0, 0.02) << format.ToString() << " " << deviation;
      EXPECT_GT(m.kurtosis, 2.5) << format.ToString();
      EXPECT_LT(m.kurtosis, 15) << format.ToString();
    }
  }
  const Moments norm =
      MomentsOf(Decode(Make(MakeRandomRecipe(kBf16Format, {64, 1000}, 5, 1, 0.2)).weight));
  EXPECT_NEAR(norm.mean, 1, 0.01);
  EXPECT_NEAR(norm.deviation, 0.2, 0.01);
}

TEST(RandomWeight, Mxfp4UsesAllNibblesAndSeveralExponents) {
  const Made made = Make(MakeRandomRecipe(kMxfp4Format, {64, 2880}, 9, 0, 1 / std::sqrt(2880.0)));
  std::map<int, int64_t> nibbles, exponents;
  for (uint8_t byte : made.data) ++nibbles[byte & 15], ++nibbles[byte >> 4];
  for (uint8_t scale : made.scales) ++exponents[scale];
  EXPECT_EQ(nibbles.size(), 16u);
  for (int code = 0; code < 8; ++code) {
    const double both = static_cast<double>(nibbles[code] + nibbles[code + 8]);
    EXPECT_NEAR(static_cast<double>(nibbles[code]) / both, 0.5, 0.03) << code;
    EXPECT_GT(both, 0.01 * 64 * 2880) << code;
  }
  EXPECT_EQ(exponents.size(), 6u);
  EXPECT_LT(exponents.rbegin()->first, 140);
  EXPECT_GT(exponents.begin()->first, 100);
}

// Neighbours, and the same place in two tensors, are independent.
TEST(RandomWeight, NumbersAreUncorrelated) {
  const std::vector<float> a =
      Decode(Make(MakeRandomRecipe(kBf16Format, {512, 512}, RandomKey(1, "a"), 0, 1)).weight);
  const std::vector<float> b =
      Decode(Make(MakeRandomRecipe(kBf16Format, {512, 512}, RandomKey(1, "b"), 0, 1)).weight);
  for (size_t lag : {0, 1, 2, 3, 4, 8, 16, 512}) {
    double same = 0, other = 0;
    for (size_t i = 0; i + lag < a.size(); ++i) {
      same += a[i] * a[i + lag];
      other += a[i] * b[i + lag];
    }
    const double n = static_cast<double>(a.size());
    if (lag > 0) {
      EXPECT_NEAR(same / n, 0, 5 / std::sqrt(n)) << lag;
    }
    EXPECT_NEAR(other / n, 0, 5 / std::sqrt(n)) << lag;
  }
}

}  // namespace
}  // namespace rose
