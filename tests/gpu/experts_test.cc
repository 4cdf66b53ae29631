// Routing and experts of the CUDA op set: against the reference, and a row alone against the same
// row among others, bit for bit.
#include "gpu/gpu_case.h"

namespace rose {
namespace {

struct ExpertsCase {
  WeightFormat format;
  int64_t experts, hidden, inter, top_k;
};

void PrintTo(const ExpertsCase& c, std::ostream* out) {
  *out << c.format.ToString() << " " << c.experts << " of " << c.hidden << "->" << c.inter
       << ", top " << c.top_k;
}

class GpuExperts : public GpuTest<testing::TestWithParam<ExpertsCase>> {
 protected:
  struct Layer {
    Weight router, router_bias, gate_up, gate_up_bias, down, down_bias;
  };
  struct Outputs {
    std::vector<int32_t> experts;
    std::vector<float> weights, inner, out;
  };

  // Runs the three ops one after the other.
  static Outputs Run(OpSet& ops, const Tensor& x, const Layer& l, int64_t top_k,
                     const SwiGlu& activation) {
    const Routing routing = ops.Route(x, l.router, l.router_bias, static_cast<int>(top_k));
    const Tensor inner = ops.ExpertsGateUp(x, routing, l.gate_up, l.gate_up_bias, activation);
    const Tensor out = ops.ExpertsDown(inner, routing, l.down, l.down_bias);
    return {Integers(ops, routing.experts), Floats(ops, routing.weights), Floats(ops, inner),
            Floats(ops, out)};
  }
};

TEST_P(GpuExperts, EqualTheReferenceAndARowAloneItself) {
  const ExpertsCase c = GetParam();
  FastWeights in(c.hidden * 7 + c.inter);
  Inputs host;
  const Layer layer{in.Matrix(kBf16Format, {c.experts, c.hidden}),
                    host.RandomVector({c.experts}),
                    in.Matrix(c.format, {c.experts, 2 * c.inter, c.hidden}),
                    host.RandomVector({c.experts, 2 * c.inter}),
                    in.Matrix(c.format, {c.experts, c.hidden, c.inter}),
                    host.RandomVector({c.experts, c.hidden})};
  const auto adopt = [&](const Weight& weight) { return ops_->Adopt(weight).value(); };
  const Layer on_gpu{adopt(layer.router),       adopt(layer.router_bias), adopt(layer.gate_up),
                     adopt(layer.gate_up_bias), adopt(layer.down),        adopt(layer.down_bias)};
  const int64_t size = c.hidden * c.inter;
  const int64_t most = size > 1'000'000 ? 37 : size > 10'000 ? 197 : size > 2048 ? 529 : 131;
  // Large enough that gpt-oss's limits are met.
  const std::vector<float> x = in.Values(most * c.hidden, 4);
  const SwiGlu activation =
      c.format.packing == Packing::kMxfp4 ? SwiGlu{7.0f, 1.702f, 1.0f} : SwiGlu{};

  DeviceInputs device;
  Outputs all;
  // Around every size of a tile and every number at which another kernel or plan takes over.
  for (int64_t tokens : std::vector<int64_t>{most, 0,   1,   2,   5,   7,   8,   9,   15,  16,  17,
                                             31,   32,  33,  63,  64,  65,  96,  97,  127, 128, 129,
                                             131,  160, 161, 193, 255, 256, 257, 511, 512, 513}) {
    if (tokens > most) continue;
    SCOPED_TRACE(testing::Message() << tokens << " tokens");
    const int64_t first = most - tokens;
    const Tensor some = device.Bf16s(Rows(x, first, tokens, c.hidden), {tokens, c.hidden});
    ops_->BeginStep({});
    const Outputs got = Run(*ops_, some, on_gpu, c.top_k, activation);
    if (tokens == most) {
      // The reference sees what the op saw: the rounded result of the op before.
      reference_.BeginStep({});
      const Tensor x_host = host.F32(x, {tokens, c.hidden});
      const Routing routing =
          reference_.Route(x_host, layer.router, layer.router_bias, static_cast<int>(c.top_k));
      EXPECT_TRUE(
          std::equal(got.experts.begin(), got.experts.end(), routing.experts.data<int32_t>()));
      ExpectNear(got.weights, ToVector(routing.weights), kF32Bound);
      ExpectNear(got.inner,
                 ToVector(reference_.ExpertsGateUp(x_host, routing, layer.gate_up,
                                                   layer.gate_up_bias, activation)),
                 kBf16Bound);
      const Tensor inner = host.F32(got.inner, {tokens, c.top_k, c.inter});
      ExpectNear(got.out,
                 ToVector(reference_.ExpertsDown(inner, routing, layer.down, layer.down_bias)),
                 kBf16Bound);
      all = got;
    }
    EXPECT_TRUE(
        std::equal(got.experts.begin(), got.experts.end(), all.experts.begin() + first * c.top_k));
    ExpectSameBits(got.weights, Rows(all.weights, first, tokens, c.top_k));
    ExpectSameBits(got.inner, Rows(all.inner, first, tokens, c.top_k * c.inter));
    ExpectSameBits(got.out, Rows(all.out, first, tokens, c.hidden));
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, GpuExperts,
    testing::Values(
        ExpertsCase{kMxfp4Format, 8, 192, 192, 4}, ExpertsCase{kMxfp4Format, 5, 64, 96, 3},
        ExpertsCase{kMxfp4Format, 128, 192, 192, 4}, ExpertsCase{kMxfp4Format, 127, 64, 96, 4},
        ExpertsCase{kMxfp4Format, 129, 96, 64, 5}, ExpertsCase{kMxfp4Format, 513, 32, 32, 2},
        ExpertsCase{kMxfp4Format, 3, 2880, 32, 2}, ExpertsCase{kMxfp4Format, 1, 96, 64, 1},
        ExpertsCase{kBf16Format, 128, 64, 32, 8}, ExpertsCase{kFp8BlockFormat, 128, 128, 64, 8},
        ExpertsCase{kMxfp4Format, 32, 320, 320, 4}, ExpertsCase{kMxfp4Format, 5, 2880, 2880, 4},
        ExpertsCase{kBf16Format, 3, 64, 32, 1}, ExpertsCase{kBf16Format, 16, 128, 96, 8},
        ExpertsCase{kBf16Format, 9, 2048, 768, 8}, ExpertsCase{kFp8BlockFormat, 4, 160, 192, 2},
        ExpertsCase{WovenFp8(), 5, 384, 192, 2}, ExpertsCase{kFp8BlockFormat, 9, 2048, 768, 8}));

// So small that compute-sanitizer's racecheck ends (scripts/gpu_sanitize.sh).
INSTANTIATE_TEST_SUITE_P(Small, GpuExperts,
                         testing::Values(ExpertsCase{kMxfp4Format, 3, 64, 32, 2},
                                         ExpertsCase{kBf16Format, 3, 32, 64, 2},
                                         ExpertsCase{WovenFp8(), 3, 64, 32, 2}));

class GpuNeighbours : public GpuTest<testing::TestWithParam<WeightFormat>> {};

// Units of 64 columns reach beyond the 96 of a row: in memory to the row behind, in shared memory
// to what the kernel before has left there.
TEST_P(GpuNeighbours, RowsOfNaNLeaveTheOthersAlone) {
  constexpr int64_t kExperts = 4, kCols = 96, kTopK = 2, kMost = 150;
  FastWeights in(5);
  const Weight weight = ops_->Adopt(in.Matrix(GetParam(), {kExperts, 2 * kCols, kCols})).value();
  std::vector<int32_t> experts;
  for (int32_t i = 0; i < kMost * kTopK; ++i) experts.push_back((i + i / 8) % kExperts);
  const std::vector<float> shares(kMost * kTopK, 0.5f), x = in.Values(kMost * kCols);
  DeviceInputs device;
  const auto run = [&](const std::vector<float>& values, int64_t tokens) {
    const size_t entries = tokens * kTopK;
    const Routing routing{device.I32({experts.data(), entries}, {tokens, kTopK}),
                          device.F32({shares.data(), entries}, {tokens, kTopK})};
    const Tensor rows = device.Bf16s(Rows(values, 0, tokens, kCols), {tokens, kCols});
    ops_->BeginStep({});
    return Floats(*ops_, ops_->ExpertsGateUp(rows, routing, weight, {}, {}));
  };
  const std::vector<float> all = run(x, kMost), nan(kMost * kCols, std::nanf(""));
  std::vector<float> mixed = x;
  for (int64_t row = 1; row < kMost; row += 2) std::fill_n(&mixed[row * kCols], kCols, nan[0]);
  for (const int64_t tokens : {1, 7, 16, 41, 150}) {
    SCOPED_TRACE(testing::Message() << tokens << " tokens");
    (void)run(nan, kMost);
    const std::vector<float> got = run(mixed, tokens);
    for (int64_t row = 0; row < tokens; row += 2) {
      ExpectSameBits(Rows(got, row, 1, kTopK * kCols), Rows(all, row, 1, kTopK * kCols));
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, GpuNeighbours,
                         testing::Values(kMxfp4Format, kBf16Format, kFp8BlockFormat));

class GpuRoute : public GpuTest<> {};

// Logits are the rows of the identity times x.
TEST_F(GpuRoute, TiesGoToTheLowerIndexAndNaNIsNeverPreferred) {
  Inputs host;
  std::vector<float> one(32 * 32, 0.0f);
  for (int i = 0; i < 32; ++i) one[i * 33] = 1;
  const Weight router = ops_->Adopt(host.Matrix(kBf16Format, one, {32, 32})).value();
  std::vector<float> x(2 * 32, 0.0f);
  x[7] = x[3] = x[31] = 2;
  x[32 + 5] = 1;
  DeviceInputs device;
  ops_->BeginStep({});
  const Routing routing = ops_->Route(device.Bf16s(x, {2, 32}), router, {}, 4);
  EXPECT_EQ(Integers(*ops_, routing.experts), (std::vector<int32_t>{3, 7, 31, 0, 5, 0, 1, 2}));
}

}  // namespace
}  // namespace rose
