// Dense products of the CUDA op set: against the reference, and a row alone against the same row
// among others, bit for bit.
#include "gpu/gpu_case.h"

namespace rose {
namespace {

struct GemmCase {
  WeightFormat format;
  int64_t rows, cols;
};

void PrintTo(const GemmCase& c, std::ostream* out) {
  *out << c.format.ToString() << " " << c.rows << "x" << c.cols;
}

class GpuGemm : public GpuTest<testing::TestWithParam<GemmCase>> {};

TEST_P(GpuGemm, EqualsTheReferenceAndARowAloneItself) {
  const auto [format, rows, cols] = GetParam();
  FastWeights in(rows * 31 + cols);
  Inputs host;
  const Weight weight = in.Matrix(format, {rows, cols});
  const Weight bias = host.RandomVector({rows});
  const Weight weight_on_gpu = ops_->Adopt(weight).value();
  const Weight bias_on_gpu = ops_->Adopt(bias).value();
  constexpr int64_t kMost = 193;
  const std::vector<float> x = in.Values(kMost * cols);
  const std::vector<float> expected =
      ToVector(reference_.Gemm(host.F32(x, {kMost, cols}), weight, bias));
  const std::vector<float> expected_logits =
      ToVector(reference_.Logits(host.F32(x, {kMost, cols}), weight));

  DeviceInputs device;
  std::vector<float> all, all_logits;
  for (int64_t tokens : {kMost, int64_t{0}, int64_t{1}, int64_t{2}, int64_t{7}, int64_t{8},
                         int64_t{9}, int64_t{16}, int64_t{17}, int64_t{31}, int64_t{33},
                         int64_t{64}, int64_t{65}, int64_t{127}, int64_t{128}, int64_t{129}}) {
    SCOPED_TRACE(testing::Message() << tokens << " tokens");
    // The last rows: a row stands elsewhere in the batch than before.
    const Tensor some = device.Bf16s(Rows(x, kMost - tokens, tokens, cols), {tokens, cols});
    ops_->BeginStep({});
    const std::vector<float> out = Floats(*ops_, ops_->Gemm(some, weight_on_gpu, bias_on_gpu));
    const std::vector<float> plain = Floats(*ops_, ops_->Gemm(some, weight_on_gpu, {}));
    const std::vector<float> logits = Floats(*ops_, ops_->Logits(some, weight_on_gpu));
    if (tokens == kMost) {
      ExpectNear(out, expected, kBf16Bound);
      ExpectNear(plain, expected_logits, kBf16Bound);
      ExpectNear(logits, expected_logits, kF32Bound);
      all = out;
      all_logits = logits;
    }
    ExpectSameBits(out, Rows(all, kMost - tokens, tokens, rows));
    ExpectSameBits(logits, Rows(all_logits, kMost - tokens, tokens, rows));
    ExpectSameBits(plain, RoundedToBf16(logits));
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, GpuGemm,
    testing::Values(GemmCase{kBf16Format, 1, 32}, GemmCase{kBf16Format, 16, 64},
                    GemmCase{kBf16Format, 17, 96}, GemmCase{kBf16Format, 192, 512},
                    GemmCase{kBf16Format, 640, 192}, GemmCase{kBf16Format, 129, 544},
                    GemmCase{kBf16Format, 127, 1056}, GemmCase{kBf16Format, 1024, 192},
                    GemmCase{kBf16Format, 320, 320}, GemmCase{kBf16Format, 5120, 2880},
                    GemmCase{kBf16Format, 2880, 4096}, GemmCase{kBf16Format, 4099, 2880},
                    GemmCase{kBf16Format, 1001, 2880}, GemmCase{kBf16Format, 1000, 3104},
                    GemmCase{kFp8BlockFormat, 1, 32}, GemmCase{kFp8BlockFormat, 130, 160},
                    GemmCase{kFp8BlockFormat, 192, 192}, GemmCase{kFp8BlockFormat, 640, 2048},
                    GemmCase{kFp8BlockFormat, 2048, 4096}, GemmCase{kMxfp4Format, 66, 96},
                    GemmCase{kMxfp4Format, 320, 320}, GemmCase{WovenFp8(), 130, 160},
                    GemmCase{WovenFp8(), 640, 272}));

// So small that compute-sanitizer's racecheck ends (scripts/gpu_sanitize.sh).
INSTANTIATE_TEST_SUITE_P(Small, GpuGemm,
                         testing::Values(GemmCase{kBf16Format, 17, 96},
                                         GemmCase{kBf16Format, 129, 544},
                                         GemmCase{kFp8BlockFormat, 130, 160},
                                         GemmCase{kMxfp4Format, 34, 96}));

// Kernels start before the one ahead has ended. Not in a checked op set, which puts copies between
// them.
TEST(GpuGemmBehindANorm, WaitsForItsRows) {
  if (!IsCudaThere()) GTEST_SKIP() << "no GPU";
  constexpr int64_t kCols = 2880;
  const auto ops = CreateCudaOps({}).value();
  FastWeights in(7);
  Inputs host;
  const Weight scale = ops->Adopt(host.RandomVector({kCols})).value();
  for (const WeightFormat& format : {kBf16Format, kFp8BlockFormat}) {
    const Weight weight = ops->Adopt(in.Matrix(format, {1280, kCols})).value();
    for (const int64_t tokens : {1, 8, 40, 65, 100, 129, 300}) {
      SCOPED_TRACE(testing::Message() << format.ToString() << ", " << tokens << " tokens");
      DeviceInputs device;
      const Tensor x[] = {device.F32(in.Values(tokens * kCols), {tokens, kCols}),
                          device.F32(in.Values(tokens * kCols), {tokens, kCols})};
      const auto run = [&](const Tensor& rows, bool waits) {
        ops->BeginStep({});
        const Tensor normed = ops->RmsNorm(rows, scale, 1e-5f);
        if (waits) (void)ops->ToHost(normed);
        return Floats(*ops, ops->Gemm(normed, weight, {}));
      };
      const std::vector<float> want = run(x[0], true);
      for (int i = 0; i < 5; ++i) {
        (void)run(x[1], false);  // leaves other rows where the next are to be
        ExpectSameBits(run(x[0], false), want);
        if (HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace rose
