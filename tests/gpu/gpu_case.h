// What the tests of the CUDA op set share: tensors on the device, and comparison with the
// reference, which computes in f32 with the same (rounded) inputs.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/cuda_check.h"
#include "device/memory.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/op_sets.h"

namespace rose {

// Bounds of 1 - cosine, by what an op rounds.
constexpr double kF32Bound = 1e-6;
constexpr double kBf16Bound = 1e-5;

// fp8-block as Qwen3's gate and up have it, made one: rows that alternate, each with its scale.
inline WeightFormat WovenFp8() {
  WeightFormat format = kFp8BlockFormat;
  format.woven = 2;
  return format;
}

inline std::vector<float> RoundedToBf16(std::vector<float> values) {
  for (float& value : values) value = ToFloat(ToBf16(value));
  return values;
}

// Device tensors of host values, with a stripe of NaN before and behind each.
class DeviceInputs {
 public:
  Tensor F32(std::span<const float> values, std::initializer_list<int64_t> shape) {
    return Upload(values.data(), values.size(), DType::kF32, shape);
  }
  Tensor Bf16s(std::span<const float> values, std::initializer_list<int64_t> shape) {
    std::vector<Bf16> rounded;
    for (float value : values) rounded.push_back(ToBf16(value));
    return Upload(rounded.data(), rounded.size(), DType::kBf16, shape);
  }
  Tensor I32(std::span<const int32_t> values, std::initializer_list<int64_t> shape) {
    return Upload(values.data(), values.size(), DType::kI32, shape);
  }

 private:
  static constexpr int64_t kStripe = 4096;

  Tensor Upload(const void* data, size_t count, DType dtype, std::initializer_list<int64_t> shape) {
    const int64_t bytes = static_cast<int64_t>(count) * ElementBytes(dtype);
    memory_.push_back(AllocateDevice(bytes + 2 * kStripe, "a test", "").value());
    std::byte* start = memory_.back().get();
    CudaCheck(cudaMemset(start, 0xff, bytes + 2 * kStripe), "filling with NaN");
    if (bytes > 0) {
      CudaCheck(cudaMemcpy(start + kStripe, data, bytes, cudaMemcpyHostToDevice), "copying in");
    }
    const Tensor tensor(start + kStripe, dtype, shape);
    ROSE_CHECK_EQ(tensor.elements(), static_cast<int64_t>(count));
    // The op set's stream is not ordered with these.
    CudaCheck(cudaDeviceSynchronize(), "waiting");
    return tensor;
  }

  std::vector<DeviceMemory> memory_;
};

// A result as floats.
inline std::vector<float> Floats(OpSet& ops, const Tensor& x) {
  const Tensor host = ops.ToHost(x);
  if (x.dtype() == DType::kF32) return ToVector(host);
  std::vector<float> values;
  for (int64_t i = 0; i < host.elements(); ++i) values.push_back(ToFloat(host.data<Bf16>()[i]));
  return values;
}

inline std::vector<int32_t> Integers(OpSet& ops, const Tensor& x) {
  const Tensor host = ops.ToHost(x);
  return {host.data<int32_t>(), host.data<int32_t>() + host.elements()};
}

inline void ExpectSameBits(const std::vector<float>& actual, const std::vector<float>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  ExpectSameBits(actual.data(), expected.data(), static_cast<int64_t>(expected.size()));
}

// Rows [first, first + rows) of values [.., cols].
inline std::vector<float> Rows(const std::vector<float>& values, int64_t first, int64_t rows,
                               int64_t cols) {
  return {values.begin() + first * cols, values.begin() + (first + rows) * cols};
}

// Random weights of full size, made fast: bits of the format, not rounded numbers.
class FastWeights {
 public:
  explicit FastWeights(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}

  Weight Matrix(const WeightFormat& format, const std::vector<int64_t>& shape) {
    int64_t n = 1, matrix = shape[shape.size() - 2] * shape.back();
    for (int64_t size : shape) n *= size;
    std::vector<uint8_t>& data = bytes_.emplace_back();
    std::vector<uint8_t>& scales = bytes_.emplace_back();
    const int64_t matrices = matrix == 0 ? 0 : n / matrix;
    switch (format.packing) {
      case Packing::kBf16:
        data.resize(n * 2);
        for (int64_t i = 0; i < n; ++i) {
          const Bf16 value = ToBf16(static_cast<float>(static_cast<int32_t>(Next())) * 0x1p-34f);
          std::memcpy(&data[i * 2], &value, 2);
        }
        break;
      case Packing::kMxfp4:
        data.resize(n / 2);
        for (uint8_t& byte : data) byte = static_cast<uint8_t>(Next());
        scales.resize(n / 32);
        for (uint8_t& byte : scales) byte = static_cast<uint8_t>(119 + Next() % 6);
        break;
      case Packing::kFp8Block: {
        data.resize(n);
        for (uint8_t& byte : data) {
          byte = static_cast<uint8_t>(Next());
          if ((byte & 0x7f) == 0x7f) byte ^= 1;  // no NaN
        }
        const int64_t blocks =
            matrices * format.ScaleRows(shape[shape.size() - 2]) * ((shape.back() + 127) / 128);
        scales.resize(blocks * sizeof(float));
        for (int64_t i = 0; i < blocks; ++i) {
          const float scale = 1e-4f * static_cast<float>(1 + Next() % 100);
          std::memcpy(&scales[i * sizeof(float)], &scale, sizeof(float));
        }
        break;
      }
    }
    data.reserve(1);
    scales.reserve(1);
    return Inputs::Wrap(format, shape, data.data(), scales.data());
  }

  // Numbers between -1 and 1, already rounded to bf16.
  std::vector<float> Values(int64_t n, float scale = 1) {
    std::vector<float> values(n);
    for (float& value : values) {
      value = ToFloat(ToBf16(scale * static_cast<float>(static_cast<int32_t>(Next())) * 0x1p-31f));
    }
    return values;
  }

 private:
  uint32_t Next() {  // xorshift64*
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return static_cast<uint32_t>((state_ * 0x2545f4914f6cdd1du) >> 32);
  }
  uint64_t state_;
  std::deque<std::vector<uint8_t>> bytes_;
};

// Skips where there is no GPU; otherwise a checked op set, and the reference.
template <typename Base = testing::Test>
class GpuTest : public Base {
 protected:
  void SetUp() override {
    if (!IsCudaThere()) GTEST_SKIP() << "no GPU";
    ops_ = CreateCudaOps({.is_checked = true}).value();
    ops_->BeginStep({});
    reference_.BeginStep({});
  }
  void TearDown() override {
    if (ops_ != nullptr) ops_->BeginStep({});  // looks at the stripes
  }

  std::unique_ptr<OpSet> ops_;
  CpuOps reference_;
};

}  // namespace rose
