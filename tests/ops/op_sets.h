// What the tests of ops share: the op sets of this machine, inputs made from a seed, and
// comparison.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ops/cpu/cpu_ops.h"
#include "ops/cpu_fast/cpu_fast_ops.h"
#include "quant/codec.h"

namespace rose {

struct OpSetCase {
  std::string name;
  Precision precision = Precision::kExact;
  std::unique_ptr<OpSet> ops;
  // How far an activation may be from its exact value, relative to it: where they are bf16, two
  // roundings.
  float rounding = 0.0f;

  // The bound for a value that the reference has within `bound`.
  double Within(double bound, double value) const { return bound + rounding * std::fabs(value); }
};

// Op sets beside those of the CPU, made where there is a device for them: tests/gpu adds to it.
struct MoreOpSets {
  std::function<std::vector<OpSetCase>()> as_they_are;
  // The same behind an OpSet that takes and gives F32 in host memory, as those of the CPU do.
  std::function<std::vector<OpSetCase>()> of_host_memory;
};
inline MoreOpSets& RegisteredOpSets() {
  static MoreOpSets sets;
  return sets;
}

// cpu-fast at every level of this machine and both precisions, with more threads than processors.
inline std::vector<OpSetCase> FastOpSets() {
  std::vector<OpSetCase> sets;
  for (CpuIsa isa : AvailableCpuIsas()) {
    for (Precision precision : {Precision::kExact, Precision::kFast}) {
      sets.push_back({StrCat("cpu-fast ", CpuIsaName(isa),
                             precision == Precision::kExact ? " exact" : " fast"),
                      precision,
                      std::make_unique<CpuFastOps>(
                          CpuFastConfig{.threads = 3, .precision = precision, .isa = isa})});
    }
  }
  return sets;
}

inline std::vector<OpSetCase> CpuOpSets() {
  std::vector<OpSetCase> sets = FastOpSets();
  sets.insert(sets.begin(), {"cpu", Precision::kExact, std::make_unique<CpuOps>()});
  return sets;
}

inline std::vector<OpSetCase> WithMore(const std::function<std::vector<OpSetCase>()>& more) {
  std::vector<OpSetCase> sets = CpuOpSets();
  if (more == nullptr) return sets;
  for (OpSetCase& set : more()) sets.push_back(std::move(set));
  return sets;
}

// For tests of ops, which read and write tensors as floats of the host.
inline std::vector<OpSetCase> AllOpSets() {
  return WithMore(RegisteredOpSets().of_host_memory);
}

// For tests of whole models, whose tensors nobody looks into.
inline std::vector<OpSetCase> AllModelOpSets() {
  return WithMore(RegisteredOpSets().as_they_are);
}

// Fills a page of a group's layers, keys and values, wherever the cache lies.
inline void FillPage(OpSet& ops, const KvLayout& layout, KvCache& cache, int group, int64_t page,
                     float value) {
  KvCache host = ops.AllocateHostKv(layout, std::vector<int64_t>(layout.groups.size(), 1)).value();
  for (KvLayer& layer : host.layers) {
    if (layer.group != group) continue;
    for (const Tensor* tensor : {&layer.keys, &layer.values}) {
      for (int64_t i = 0; i < tensor->elements(); ++i) {
        if (tensor->dtype() == DType::kF32) {
          tensor->data<float>()[i] = value;
        } else {
          tensor->data<Bf16>()[i] = ToBf16(value);
        }
      }
    }
  }
  ops.CopyPages(cache, host, {.to_device = {{group, 0, static_cast<int32_t>(page)}}});
}

// Fills what the op set will hand out next with NaN, so that a place that is not written shows.
inline void PoisonArena(OpSet& ops) {
  if (ops.name() == "cuda") return;  // a checked one does so itself
  static const std::vector<float> nan(size_t{1} << 18, std::nanf(""));
  const Tensor x(const_cast<float*>(nan.data()), DType::kF32, {1, int64_t{1} << 18});
  const int32_t row = 0;
  ops.BeginStep({});
  for (int i = 0; i < 4; ++i) ops.GatherLogitRows(x, {.logit_rows = {&row, 1}});
  ops.BeginStep({});
}

// Makes tensors and weights, and owns their memory.
class Inputs {
 public:
  explicit Inputs(uint64_t seed = 1) : random_(seed) {}

  float Normal() { return normal_(random_); }

  std::vector<float> Values(int64_t n) {
    std::vector<float> values(n);
    for (float& value : values) value = Normal();
    return values;
  }

  Tensor F32(const std::vector<float>& values, std::initializer_list<int64_t> shape) {
    floats_.push_back(values);
    // No element of an empty vector has an address; every tensor needs one.
    floats_.back().reserve(1);
    const Tensor tensor(floats_.back().data(), DType::kF32, shape);
    ROSE_CHECK_EQ(tensor.elements(), static_cast<int64_t>(values.size()));
    return tensor;
  }

  Tensor RandomF32(std::initializer_list<int64_t> shape) {
    int64_t n = 1;
    for (int64_t size : shape) n *= size;
    return F32(Values(n), shape);
  }

  // A vector weight, [n] or [experts, n]: bf16.
  Weight Vector(const std::vector<float>& values, std::vector<int64_t> shape) {
    std::vector<uint8_t>& data = bytes_.emplace_back(values.size() * sizeof(Bf16));
    for (size_t i = 0; i < values.size(); ++i)
      reinterpret_cast<Bf16*>(data.data())[i] = ToBf16(values[i]);
    return {kBf16Format, shape, Tensor(data.data(), DType::kBf16, shape), {}};
  }

  Weight RandomVector(std::vector<int64_t> shape) {
    int64_t n = 1;
    for (int64_t size : shape) n *= size;
    return Vector(Values(n), shape);
  }

  // A matrix [rows, cols] or a stack of them in a format, from f32 values.
  Weight Matrix(const WeightFormat& format, const std::vector<float>& values,
                std::vector<int64_t> shape) {
    const Codec& codec = CodecFor(format);
    const int64_t cols = shape.back();
    const int64_t rows = shape[shape.size() - 2];
    const int64_t experts = shape.size() == 3 ? shape[0] : 1;
    std::vector<uint8_t>& data = bytes_.emplace_back();
    std::vector<uint8_t>& scales = bytes_.emplace_back();
    for (int64_t e = 0; e < experts; ++e) {
      std::vector<uint8_t> part, part_scales;
      codec.Pack({values.data() + e * rows * cols, static_cast<size_t>(rows * cols)}, rows, cols,
                 part, part_scales);
      data.insert(data.end(), part.begin(), part.end());
      scales.insert(scales.end(), part_scales.begin(), part_scales.end());
    }
    return Wrap(format, shape, data.data(), scales.data());
  }

  Weight RandomMatrix(const WeightFormat& format, std::vector<int64_t> shape) {
    int64_t n = 1;
    for (int64_t size : shape) n *= size;
    return Matrix(format, Values(n), shape);
  }

  // A weight over bytes as a checkpoint has them.
  static Weight Wrap(const WeightFormat& format, const std::vector<int64_t>& shape, uint8_t* data,
                     uint8_t* scales) {
    std::vector<int64_t> data_shape = shape, scale_shape = shape;
    const size_t last = shape.size() - 1;
    DType data_type = DType::kBf16, scale_type = DType::kF32;
    switch (format.packing) {
      case Packing::kBf16:
        return {format, shape, Tensor(data, data_type, shape), {}};
      case Packing::kMxfp4:
        data_type = scale_type = DType::kU8;
        data_shape[last] = scale_shape[last] = shape[last] / 32;
        data_shape.push_back(16);
        break;
      case Packing::kFp8Block:
        data_type = DType::kE4m3;
        scale_shape[last] = (shape[last] + 127) / 128;
        scale_shape[last - 1] = format.ScaleRows(shape[last - 1]);
        break;
    }
    return {format, shape, Tensor(data, data_type, data_shape),
            Tensor(scales, scale_type, scale_shape)};
  }

 private:
  std::mt19937_64 random_;
  std::normal_distribution<float> normal_;
  std::deque<std::vector<float>> floats_;
  std::deque<std::vector<uint8_t>> bytes_;
};

inline std::vector<float> ToVector(const Tensor& tensor) {
  return {tensor.data<float>(), tensor.data<float>() + tensor.elements()};
}

// 1 - cosine between the two; NaN and infinities must be in the same places.
inline void ExpectNear(const std::vector<float>& actual, const std::vector<float>& expected,
                       double bound) {
  ASSERT_EQ(actual.size(), expected.size());
  double aa = 0, bb = 0, ab = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (!std::isfinite(expected[i])) {
      ASSERT_TRUE(std::isnan(expected[i]) ? std::isnan(actual[i]) : actual[i] == expected[i])
          << i << ": " << actual[i] << ", expected " << expected[i];
      continue;
    }
    ASSERT_TRUE(std::isfinite(actual[i])) << i << ": " << actual[i] << ", expected " << expected[i];
    aa += double{actual[i]} * actual[i];
    bb += double{expected[i]} * expected[i];
    ab += double{actual[i]} * expected[i];
  }
  if (aa == 0 && bb == 0) return;
  EXPECT_LT(1 - ab / std::sqrt(aa * bb), bound);
  // A cosine does not see a common factor.
  EXPECT_LT(std::fabs(1 - std::sqrt(aa / bb)), std::sqrt(bound));
}

// The bound of an op's result against the reference: f32 sums, or keys and values
// rounded to bf16.
inline double BoundOf(Precision precision) {
  return precision == Precision::kExact ? 1e-10 : 1e-4;
}

// Bits, so that NaN equals itself and -0 differs from 0.
inline void ExpectSameBits(const float* actual, const float* expected, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(actual[i]), std::bit_cast<uint32_t>(expected[i]))
        << i << ": " << actual[i] << ", expected " << expected[i];
  }
}

// A step of sequences with the tokens and positions that ops look at; pages are the same table for
// every KV group.
struct StepInputs {
  struct Sequence {
    int64_t start = 0;
    int64_t rows = 0;
    std::vector<int32_t> pages;
  };
  explicit StepInputs(std::vector<Sequence> sequences, size_t groups = 1)
      : sequences_(std::move(sequences)) {
    for (const Sequence& s : sequences_) {
      seqs_.push_back({static_cast<int64_t>(tokens_.size()), s.rows, s.start,
                       std::vector<std::span<const int32_t>>(groups, s.pages)});
      for (int64_t r = 0; r < s.rows; ++r) {
        tokens_.push_back(0);
        positions_.push_back(static_cast<int32_t>(s.start + r));
      }
    }
  }
  StepInputs(const StepInputs&) = delete;
  Step step() const { return {tokens_, positions_, seqs_, {}}; }
  int64_t rows() const { return static_cast<int64_t>(tokens_.size()); }

 private:
  std::vector<Sequence> sequences_;
  std::vector<StepSeq> seqs_;
  std::vector<int32_t> tokens_, positions_;
};

}  // namespace rose
