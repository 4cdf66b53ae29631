// The launchers of kernels/experts against the reference, and all variants against each other, bit
// for bit.
#include "kernels/experts/experts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "base/check.h"
#include "device/cuda_check.h"
#include "kernels/on_device.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/op_sets.h"

namespace rose {
namespace {

constexpr int64_t kGuards = 64;      // elements before and behind an output
constexpr uint16_t kGuard = 0x7fa5;  // a NaN that no kernel writes

std::vector<Bf16> Rounded(const std::vector<float>& values) {
  std::vector<Bf16> rounded;
  for (const float value : values) rounded.push_back(ToBf16(value));
  return rounded;
}

std::vector<float> Widened(const std::vector<Bf16>& values) {
  std::vector<float> wide;
  for (const Bf16 value : values) wide.push_back(ToFloat(value));
  return wide;
}

std::vector<float> RandomNumbers(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(count);
  for (float& value : values) value = ToFloat(ToBf16(normal(random)));
  return values;
}

// A layer in the published form, and packed on the device.
struct TestWeight {
  TestWeight(const Codec& codec, int64_t experts, int64_t rows, int64_t cols, uint64_t seed) {
    const StoredWeight stored = codec.Describe("w", std::vector<int64_t>{experts, rows, cols});
    for (int64_t e = 0; e < experts; ++e) {
      std::vector<float> values = RandomNumbers(rows * cols, seed + e);
      for (float& value : values) value /= std::sqrt(static_cast<float>(cols));
      std::vector<uint8_t> one, one_scales;
      codec.Pack(values, rows, cols, one, one_scales);
      data.insert(data.end(), one.begin(), one.end());
      scales.insert(scales.end(), one_scales.begin(), one_scales.end());
    }
    weight.format = codec.format();
    weight.shape = {experts, rows, cols};
    weight.data = Tensor(data.data(), stored.data.dtype, stored.data.shape);
    if (stored.scales)
      weight.scales = Tensor(scales.data(), stored.scales->dtype, stored.scales->shape);
  }

  PackExpertsParams Params() const {
    return {.shape = {.packing = weight.format.packing,
                      .experts = static_cast<int>(weight.shape[0]),
                      .rows = static_cast<int>(weight.shape[1]),
                      .cols = static_cast<int>(weight.shape[2])}};
  }
  // The packed bytes as the host makes them.
  std::vector<uint8_t> PackedOnHost() const {
    PackExpertsParams params = Params();
    std::vector<uint8_t> packed(PackedExpertsBytes(params.shape), 0xee);
    params.data = data.data();
    params.scales = scales.empty() ? nullptr : scales.data();
    params.out = packed.data();
    PackExpertsOnHost(params);
    return packed;
  }

  std::vector<uint8_t> data, scales;
  Weight weight;
};

struct ExpertsCase {
  const char* format;
  int64_t experts, hidden, inter;
  int top_k;
  bool has_bias;
};

void PrintTo(const ExpertsCase& c, std::ostream* out) {
  *out << c.format << " " << c.experts << " experts, " << c.hidden << " -> " << c.inter << ", top "
       << c.top_k;
}

constexpr SwiGlu kActivation{.limit = 7.0f, .alpha = 1.702f, .up_offset = 1.0f};

// A layer, a batch, and what a launch of both products makes of a part of it.
class Layer {
 public:
  Layer(const ExpertsCase& c, int64_t tokens, bool is_skewed)
      : c_(c),
        tokens_(tokens),
        gate_up_(*FindCodec(c.format), c.experts, 2 * c.inter, c.hidden, 1),
        down_(*FindCodec(c.format), c.experts, c.hidden, c.inter, 1000),
        gate_up_packed_(gate_up_.PackedOnHost()),
        down_packed_(down_.PackedOnHost()),
        x_(RandomNumbers(tokens * c.hidden, 3)),
        gate_up_bias_(RandomNumbers(c.experts * 2 * c.inter, 4)),
        down_bias_(RandomNumbers(c.experts * c.hidden, 5)),
        x_device_(Rounded(x_)),
        gate_up_bias_device_(Rounded(gate_up_bias_)),
        down_bias_device_(Rounded(down_bias_)) {
    std::mt19937_64 random(6);
    for (int64_t token = 0; token < tokens; ++token)
      for (int slot = 0; slot < c.top_k; ++slot) {
        const int64_t step = is_skewed ? 0 : static_cast<int64_t>(random() % 1000) / 7 * c.top_k;
        experts_.push_back(static_cast<int32_t>((slot + step) % c.experts));
        weights_.push_back(static_cast<float>(1 + random() % 9) / 10.0f);
      }
    // Distinct in a row: slots that the modulus has brought together move on.
    for (int64_t token = 0; token < tokens; ++token)
      for (int slot = 1; slot < c.top_k; ++slot) {
        int32_t* row = experts_.data() + token * c.top_k;
        while (std::find(row, row + slot, row[slot]) != row + slot)
          row[slot] = static_cast<int32_t>((row[slot] + 1) % c.experts);
      }
  }

  struct Result {
    std::vector<Bf16> inner, out;
  };

  int sms = ExpertsScratch{}.sms;  // that share the work

  // Tokens [first, first + tokens), guarded.
  Result Run(int64_t first, int64_t tokens, ExpertsVariant variant) const {
    const std::vector<int32_t> experts(experts_.begin() + first * c_.top_k,
                                       experts_.begin() + (first + tokens) * c_.top_k);
    const std::vector<float> weights(weights_.begin() + first * c_.top_k,
                                     weights_.begin() + (first + tokens) * c_.top_k);
    const OnDevice<int32_t> experts_device(experts);
    const OnDevice<float> weights_device(weights);
    const int rows = static_cast<int>(std::max(2 * c_.inter, c_.hidden));
    const OnDevice<uint8_t> workspace(std::vector<uint8_t>(
        ExpertsWorkspaceBytes(tokens, c_.top_k, static_cast<int>(c_.experts), rows), 0xff));
    const ExpertsScratch scratch{.workspace = workspace.data(), .sms = sms};
    const OnDevice<Bf16> inner(
        std::vector<Bf16>(tokens * c_.top_k * c_.inter + 2 * kGuards, Bf16{kGuard}));
    const OnDevice<Bf16> out(std::vector<Bf16>(tokens * c_.hidden + 2 * kGuards, Bf16{kGuard}));
    PackedExperts gate_up = gate_up_.Params().shape, down = down_.Params().shape;
    gate_up.data = gate_up_packed_.data();
    down.data = down_packed_.data();
    LaunchExpertsGateUp({.x = x_device_.data() + first * c_.hidden,
                         .experts = experts_device.data(),
                         .weight = gate_up,
                         .bias = c_.has_bias ? gate_up_bias_device_.data() : nullptr,
                         .out = inner.data() + kGuards,
                         .tokens = tokens,
                         .experts_per_token = c_.top_k,
                         .limit = kActivation.limit,
                         .alpha = kActivation.alpha,
                         .up_offset = kActivation.up_offset,
                         .scratch = scratch},
                        /*stream=*/nullptr, variant);
    LaunchExpertsDown({.x = inner.data() + kGuards,
                       .experts = experts_device.data(),
                       .weights = weights_device.data(),
                       .weight = down,
                       .bias = c_.has_bias ? down_bias_device_.data() : nullptr,
                       .out = out.data() + kGuards,
                       .tokens = tokens,
                       .experts_per_token = c_.top_k,
                       .scratch = scratch},
                      /*stream=*/nullptr, variant);
    return {Unguarded(inner), Unguarded(out)};
  }

  // The reference's two products; the second one of `inner`, as the kernel has rounded it.
  std::vector<float> WantInner() const {
    CpuOps ops;
    ops.BeginStep({});
    Inputs in;
    return ToVector(
        ops.ExpertsGateUp(in.F32(x_, {tokens_, c_.hidden}), RoutingOf(in), gate_up_.weight,
                          Bias(in, gate_up_bias_, {c_.experts, 2 * c_.inter}), kActivation));
  }
  std::vector<float> WantOut(const std::vector<float>& inner) const {
    CpuOps ops;
    ops.BeginStep({});
    Inputs in;
    return ToVector(ops.ExpertsDown(in.F32(inner, {tokens_, c_.top_k, c_.inter}), RoutingOf(in),
                                    down_.weight, Bias(in, down_bias_, {c_.experts, c_.hidden})));
  }

 private:
  static std::vector<Bf16> Unguarded(const OnDevice<Bf16>& output) {
    const std::vector<Bf16> all = output.ToHost();
    for (int64_t i = 0; i < kGuards; ++i) {
      EXPECT_EQ(all[i].bits, kGuard) << "before the output: " << i;
      EXPECT_EQ(all[all.size() - 1 - i].bits, kGuard) << "behind the output: " << i;
    }
    return {all.begin() + kGuards, all.end() - kGuards};
  }
  Weight Bias(Inputs& in, const std::vector<float>& values, std::vector<int64_t> shape) const {
    return c_.has_bias ? in.Vector(values, shape) : Weight{};
  }
  Routing RoutingOf(Inputs& in) const {
    return {Tensor(const_cast<int32_t*>(experts_.data()), DType::kI32, {tokens_, c_.top_k}),
            in.F32(weights_, {tokens_, c_.top_k})};
  }

  ExpertsCase c_;
  int64_t tokens_;
  TestWeight gate_up_, down_;
  OnDevice<uint8_t> gate_up_packed_, down_packed_;
  std::vector<float> x_, gate_up_bias_, down_bias_;
  OnDevice<Bf16> x_device_, gate_up_bias_device_, down_bias_device_;
  std::vector<int32_t> experts_;
  std::vector<float> weights_;
};

void ExpectSameBits(const std::vector<Bf16>& part, const std::vector<Bf16>& whole, int64_t first,
                    int64_t cols) {
  for (size_t i = 0; i < part.size(); ++i)
    ASSERT_EQ(part[i].bits, whole[first * cols + i].bits)
        << "row " << i / cols << " of those from " << first << ", column " << i % cols;
}

class ExpertsKernels : public testing::TestWithParam<ExpertsCase> {
 protected:
  void SetUp() override {
    if (CudaDevices() == 0) GTEST_SKIP() << "no GPU";
  }
};

TEST_P(ExpertsKernels, EqualTheReferenceInEveryVariantAndBatch) {
  const ExpertsCase c = GetParam();
  for (const bool is_skewed : {false, true}) {
    SCOPED_TRACE(is_skewed ? "all tokens to the same experts" : "spread");
    const int64_t tokens = c.hidden > 1000 ? 70 : 151;
    const Layer layer(c, tokens, is_skewed);
    const Layer::Result whole = layer.Run(0, tokens, ExpertsVariant::kGrouped);
    ExpectNear(Widened(whole.inner), layer.WantInner(), 1e-5);
    ExpectNear(Widened(whole.out), layer.WantOut(Widened(whole.inner)), 1e-5);
    for (const ExpertsVariant variant : {ExpertsVariant::kAuto, ExpertsVariant::kStrips,
                                         ExpertsVariant::kNarrow, ExpertsVariant::kGrouped})
      for (const int64_t part : {int64_t{0}, int64_t{1}, int64_t{3}, int64_t{8}, int64_t{9},
                                 int64_t{17}, int64_t{64}, int64_t{65}, tokens}) {
        SCOPED_TRACE(testing::Message()
                     << part << " tokens, variant " << static_cast<int>(variant));
        const Layer::Result some = layer.Run(tokens - part, part, variant);
        ExpectSameBits(some.inner, whole.inner, tokens - part, c.top_k * c.inter);
        ExpectSameBits(some.out, whole.out, tokens - part, c.hidden);
        if (HasFatalFailure()) return;
      }
  }
}

// Warps that have come two turns further than others: shares of many blocks, with few places for
// their sums.
TEST(ExpertsShares, OfManyBlocksEndWithTheSameBits) {
  if (CudaDevices() == 0) GTEST_SKIP() << "no GPU";
  Layer layer({"mxfp4", 8, 2880, 256, 4, true}, 16, /*is_skewed=*/false);
  const Layer::Result whole = layer.Run(0, 16, ExpertsVariant::kGrouped);
  for (const int sms : {1, 2, 3, 5}) {
    layer.sms = sms;
    for (int run = 0; run < 20; ++run) {
      for (const int64_t tokens : {1, 8, 9, 16}) {
        SCOPED_TRACE(testing::Message() << tokens << " tokens on " << sms);
        const Layer::Result some = layer.Run(16 - tokens, tokens, ExpertsVariant::kStrips);
        ExpectSameBits(some.inner, whole.inner, 16 - tokens, 4 * 256);
        ExpectSameBits(some.out, whole.out, 16 - tokens, 2880);
      }
    }
  }
}

TEST_P(ExpertsKernels, ArePackedOnTheDeviceAsOnTheHost) {
  const ExpertsCase c = GetParam();
  const TestWeight weight(*FindCodec(c.format), c.experts, c.hidden, c.inter, 7);
  const std::vector<uint8_t> want = weight.PackedOnHost();
  const OnDevice<uint8_t> data(weight.data), scales(weight.scales),
      packed(std::vector<uint8_t>(want.size(), 0xdd));
  const OnDevice<int32_t> largest(std::vector<int32_t>{0});
  PackExpertsParams params = weight.Params();
  params.data = data.data();
  params.scales = weight.scales.empty() ? nullptr : scales.data();
  params.out = packed.data();
  params.largest_scale = largest.data();
  LaunchPackExperts(params, /*stream=*/nullptr);
  EXPECT_EQ(packed.ToHost(), want);
  if (params.shape.packing == Packing::kMxfp4) {
    EXPECT_EQ(largest.ToHost()[0], *std::max_element(weight.scales.begin(), weight.scales.end()));
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ExpertsKernels,
                         testing::Values(ExpertsCase{"mxfp4", 8, 192, 96, 2, true},
                                         ExpertsCase{"mxfp4", 32, 320, 160, 4, true},
                                         ExpertsCase{"mxfp4", 3, 32, 32, 3, false},
                                         ExpertsCase{"mxfp4", 6, 1056, 544, 4, true},
                                         ExpertsCase{"bf16", 8, 192, 96, 2, true},
                                         ExpertsCase{"bf16", 20, 1056, 320, 8, false},
                                         ExpertsCase{"fp8-block", 8, 192, 96, 2, true},
                                         ExpertsCase{"fp8-block", 20, 1056, 320, 8, false}));

// Packing on the host alone: what no GPU is needed for.
TEST(PackExperts, ReportsTheLargestScale) {
  std::vector<uint8_t> data(2 * 32 / 2, 0x77), scales = {120, 131};
  int32_t largest = 0;
  PackExpertsParams params{
      .shape = {.packing = Packing::kMxfp4, .experts = 1, .rows = 2, .cols = 32},
      .data = data.data(),
      .scales = scales.data(),
      .largest_scale = &largest};
  std::vector<uint8_t> packed(PackedExpertsBytes(params.shape));
  params.out = packed.data();
  PackExpertsOnHost(params);
  EXPECT_EQ(largest, 131);
  EXPECT_GT(largest, kLargestE8m0);
}

TEST(ExpertsLaunch, RefusesWhatItCannotTake) {
  ExpertsGateUpParams params{
      .weight = {.experts = 4, .rows = 8, .cols = 40}, .tokens = 1, .experts_per_token = 2};
  EXPECT_THROW(LaunchExpertsGateUp(params, nullptr), CheckFailure);
  params.weight.cols = 64;
  params.experts_per_token = 5;
  EXPECT_THROW(LaunchExpertsGateUp(params, nullptr), CheckFailure);
}

}  // namespace
}  // namespace rose
