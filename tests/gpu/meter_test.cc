// The meter of the CUDA op set: which calls it makes, and that the library's product is ours. No
// test looks at a time.
#include "gpu/gpu_case.h"
#include "ops/cuda/cuda_meter.h"

namespace rose {
namespace {

class GpuMeter : public GpuTest<> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    // Not a checked one: it looks at stripes between layers, which cannot be recorded.
    ops_ = CreateCudaOps({}).value();
    meter_ = CreateCudaMeter(*ops_);
  }
  void TearDown() override {
    meter_.reset();
    GpuTest::TearDown();
  }

  std::unique_ptr<OpMeter> meter_;
};

TEST_F(GpuMeter, RecordsARoundAndEndsWithCallNumberZero) {
  FastWeights in(3);
  const std::vector<float> x = in.Values(5 * 64);
  const Tensor placed = meter_->Place(Tensor(const_cast<float*>(x.data()), DType::kF32, {5, 64}));
  std::vector<Weight> norms;
  Inputs host;
  for (int i = 0; i < 3; ++i) norms.push_back(ops_->Adopt(host.RandomVector({64})).value());
  const MeteredCalls reads = meter_->ReadCalls(1e6).value();
  std::vector<int64_t> recorded, plain;
  Tensor last;
  int settled = 0;
  const MeteredCalls calls[] = {{.count = 3,
                                 .run =
                                     [&](int64_t i) {
                                       recorded.push_back(i);
                                       ops_->BeginLayer();
                                       last = ops_->RmsNorm(placed, norms[i], 1e-5f);
                                     }},
                                {.count = 2,
                                 .run =
                                     [&](int64_t i) {
                                       plain.push_back(i);
                                       reads.run(i);  // leaves the other's result alone
                                     },
                                 .is_recordable = false,
                                 .settle = [&] { ++settled; }}};
  const std::vector<MeteredTimes> times = meter_->Time(calls, 1);
  ASSERT_EQ(times.size(), 2u);
  // Once plainly and once to be recorded, whatever the number of replays.
  EXPECT_EQ(recorded, (std::vector<int64_t>{2, 1, 0, 2, 1, 0}));
  EXPECT_TRUE(times[0].is_recorded);
  EXPECT_FALSE(times[1].is_recorded);
  EXPECT_EQ(times[0].us.size(), times[1].us.size());
  EXPECT_GE(times[0].us.size(), 20u);
  EXPECT_EQ(std::ssize(plain), 2 * settled);
  const Tensor expected = ops_->RmsNorm(placed, norms[0], 1e-5f);
  ExpectSameBits(Floats(*ops_, last), Floats(*ops_, expected));
}

TEST_F(GpuMeter, TheLibrarysProductIsOurs) {
  constexpr int64_t kTokens = 9, kRows = 192, kCols = 320;
  FastWeights in(4);
  Inputs host;
  std::vector<Weight> weights, biases;
  for (int i = 0; i < 2; ++i) {
    weights.push_back(ops_->Adopt(in.Matrix(kBf16Format, {kRows, kCols})).value());
    biases.push_back(ops_->Adopt(host.RandomVector({kRows})).value());
  }
  DeviceInputs device;
  const Tensor x = device.Bf16s(in.Values(kTokens * kCols), {kTokens, kCols});
  const Tensor out = device.Bf16s(std::vector<float>(kTokens * kRows), {kTokens, kRows});
  std::string name;
  const Result<MeteredCalls> product =
      meter_->LibraryCalls({.x = x, .out = out, .weights = weights, .biases = biases}, name);
  if (!product.ok()) {
    EXPECT_NE(product.status().message().find("LD_LIBRARY_PATH"), std::string::npos);
    GTEST_SKIP() << product.status().message();
  }
  EXPECT_EQ(name.substr(0, 8), "cublasLt");
  for (int i = 0; i < 2; ++i) {
    ops_->BeginStep({});
    product.value().run(i);
    const std::vector<float> theirs = Floats(*ops_, out);
    ExpectNear(theirs, Floats(*ops_, ops_->Gemm(x, weights[i], biases[i])), 1e-4);
  }
}

TEST_F(GpuMeter, ReadsWhatDoesNotFitIntoACache) {
  const Result<MeteredCalls> reads = meter_->ReadCalls(1e6);
  ASSERT_TRUE(reads.ok());
  EXPECT_GE(reads.value().count * 1e6, 2e8 - 1e6);
  EXPECT_EQ(meter_->Time({&reads.value(), 1}, 1).size(), 1u);
}

}  // namespace
}  // namespace rose
