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
#include "tensor/dtype.h"

namespace rose {
namespace {

constexpr uint16_t kGuard = 0x7fa5;  // a NaN that no kernel writes
constexpr int64_t kGuards = 64;      // elements before and behind the output

// Device memory that holds a copy of a host vector.
class OnDevice {
 public:
  explicit OnDevice(const std::vector<Bf16>& host) : size_(host.size()) {
    CudaCheck(cudaMalloc(&data_, bytes() + 1), "allocating");  // also where there is nothing
    CudaCheck(cudaMemcpy(data_, host.data(), bytes(), cudaMemcpyHostToDevice), "copying in");
  }
  ~OnDevice() { (void)cudaFree(data_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  Bf16* data() const { return static_cast<Bf16*>(data_); }
  std::vector<Bf16> ToHost() const {
    std::vector<Bf16> host(size_);
    CudaCheck(cudaMemcpy(host.data(), data_, bytes(), cudaMemcpyDeviceToHost), "copying out");
    return host;
  }

 private:
  size_t bytes() const { return size_ * sizeof(Bf16); }
  size_t size_;
  void* data_ = nullptr;
};

std::vector<Bf16> Random(int64_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 3);
  std::vector<Bf16> values(size);
  for (Bf16& value : values) value = ToBf16(normal(random));
  return values;
}

class RmsNorm : public testing::TestWithParam<std::tuple<int64_t, int, int64_t>> {
 protected:
  void SetUp() override {
    if (CudaDevices() == 0) GTEST_SKIP() << "no GPU";
  }
};

TEST_P(RmsNorm, EqualsDoubleUpToTheOneRounding) {
  const auto [tokens, hidden, gap] = GetParam();
  const int64_t stride = hidden + gap;
  constexpr float kEps = 1e-5f;
  const std::vector<Bf16> x = Random(tokens * stride, 1), weight = Random(hidden, 2);
  const OnDevice x_device(x), weight_device(weight),
      out_device(std::vector<Bf16>(tokens * hidden + 2 * kGuards, Bf16{kGuard}));

  LaunchRmsNormBf16({.x = x_device.data(),
                     .weight = weight_device.data(),
                     .out = out_device.data() + kGuards,
                     .x_stride = stride,
                     .tokens = tokens,
                     .hidden = hidden,
                     .eps = kEps},
                    /*stream=*/nullptr);
  const std::vector<Bf16> out = out_device.ToHost();

  for (int64_t i = 0; i < kGuards; ++i) {
    ASSERT_EQ(out[i].bits, kGuard) << "before the output: " << i;
    ASSERT_EQ(out[out.size() - 1 - i].bits, kGuard) << "behind the output: " << i;
  }
  for (int64_t token = 0; token < tokens; ++token) {
    double squares = 0;
    for (int i = 0; i < hidden; ++i) squares += std::pow(ToFloat(x[token * stride + i]), 2.0);
    const double scale = 1 / std::sqrt(squares / hidden + kEps);
    for (int i = 0; i < hidden; ++i) {
      const double want = ToFloat(x[token * stride + i]) * scale * ToFloat(weight[i]);
      const float got = ToFloat(out[kGuards + token * hidden + i]);
      // Half a unit of bf16's 8 bits, and a little for the sum in f32.
      ASSERT_NEAR(got, want, std::abs(want) * (1.0 / 256 + 1e-5)) << "token " << token << " " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, RmsNorm,
                         testing::Combine(testing::Values<int64_t>(0, 1, 3, 257),
                                          testing::Values(8, 320, 2880, 5768),
                                          testing::Values<int64_t>(0, 8)));

TEST(RmsNormLaunch, RefusesRowsThatItCannotRead) {
  EXPECT_THROW(LaunchRmsNormBf16({.x_stride = 12, .tokens = 1, .hidden = 12}, nullptr),
               CheckFailure);
  EXPECT_THROW(LaunchRmsNormBf16({.x_stride = 8, .tokens = 1, .hidden = 16}, nullptr),
               CheckFailure);
}

}  // namespace
}  // namespace rose
