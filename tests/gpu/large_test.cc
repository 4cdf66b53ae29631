// Case 92 on a device: tensors of more than 2^31 elements, of which a few rows are looked at. Needs
// some 20 GB.
#include "gpu/gpu_case.h"

namespace rose {
namespace {

// Rows [first, first + rows) of a tensor on the device, as floats.
std::vector<float> RowsOnDevice(const Tensor& x, int64_t first, int64_t rows) {
  const int64_t cols = x.elements() / x.dim(0);
  const int64_t bytes = cols * ElementBytes(x.dtype());
  std::vector<std::byte> raw(rows * bytes);
  CudaCheck(cudaDeviceSynchronize(), "waiting");
  CudaCheck(cudaMemcpy(raw.data(), static_cast<std::byte*>(x.raw()) + first * bytes,
                       static_cast<size_t>(rows * bytes), cudaMemcpyDeviceToHost),
            "reading rows");
  std::vector<float> values(rows * cols);
  for (int64_t i = 0; i < rows * cols; ++i) {
    if (x.dtype() == DType::kF32) {
      values[i] = reinterpret_cast<const float*>(raw.data())[i];
    } else {
      values[i] = ToFloat(reinterpret_cast<const Bf16*>(raw.data())[i]);
    }
  }
  return values;
}

class GpuCase092 : public GpuTest<> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (!IsSkipped() && FreeCudaBytes() < int64_t{40} << 30) GTEST_SKIP() << "too little memory";
  }
  // The rows at both sides of element 2^31.
  static constexpr int64_t kRows = 2;
};

TEST_F(GpuCase092, LogitsBeyond32BitElements) {
  constexpr int64_t kVocab = 201'088, kTokens = 10'681, kHidden = 64;
  static_assert((kTokens - 1) * kVocab > int64_t{1} << 31);
  FastWeights in(1);
  const Weight weight = ops_->Adopt(in.Matrix(kBf16Format, {kVocab, kHidden})).value();
  const std::vector<float> x = in.Values(kTokens * kHidden);
  DeviceInputs device;
  const Tensor all = ops_->Logits(device.Bf16s(x, {kTokens, kHidden}), weight);
  const std::vector<float> far = RowsOnDevice(all, kTokens - kRows, kRows);
  ops_->BeginStep({});
  const Tensor near = ops_->Logits(
      device.Bf16s(Rows(x, kTokens - kRows, kRows, kHidden), {kRows, kHidden}), weight);
  ExpectSameBits(far, RowsOnDevice(near, 0, kRows));
}

TEST_F(GpuCase092, GatheredRowsBeyond32BitElements) {
  constexpr int64_t kCols = 4 * 5760, kTokens = 93'208;
  static_assert((kTokens - 1) * kCols > int64_t{1} << 31);
  const int64_t bytes = kTokens * kCols * static_cast<int64_t>(sizeof(float));
  const DeviceMemory memory = AllocateDevice(bytes, "a test", "").value();
  const Tensor x(memory.get(), DType::kF32, {kTokens, kCols});
  const std::vector<float> values = FastWeights(2).Values(kRows * kCols);
  CudaCheck(cudaMemcpy(x.data<float>() + (kTokens - kRows) * kCols, values.data(),
                       values.size() * sizeof(float), cudaMemcpyHostToDevice),
            "copying in");
  CudaCheck(cudaDeviceSynchronize(), "waiting");
  const std::vector<int32_t> rows = {kTokens - 2, kTokens - 1};
  const Step step{{}, {}, {}, rows};
  ops_->BeginStep(step);
  ExpectSameBits(Floats(*ops_, ops_->GatherLogitRows(x, step)), values);
}

TEST_F(GpuCase092, ExpertsBeyond32BitElements) {
  constexpr int64_t kTokens = 186'415, kWide = 2880, kNarrow = 32, kExperts = 5, kTopK = 4;
  static_assert((kTokens - 1) * kTopK * kWide > int64_t{1} << 31);
  FastWeights in(3);
  Inputs host;
  const auto adopt = [&](const Weight& weight) { return ops_->Adopt(weight).value(); };
  const Weight gate_up = adopt(in.Matrix(kMxfp4Format, {kExperts, 2 * kWide, kNarrow}));
  const Weight gate_up_bias = adopt(host.RandomVector({kExperts, 2 * kWide}));
  const Weight down = adopt(in.Matrix(kMxfp4Format, {kExperts, kWide, kNarrow}));
  const Weight down_bias = adopt(host.RandomVector({kExperts, kWide}));
  std::vector<int32_t> experts;
  for (int64_t i = 0; i < kTokens * kTopK; ++i) {
    experts.push_back(static_cast<int32_t>((i / kTopK + i) % kExperts));
  }
  const std::vector<float> weights = in.Values(kTokens * kTopK);
  const std::vector<float> x = in.Values(kTokens * kNarrow);
  const std::vector<float> inner = in.Values(kTokens * kTopK * kNarrow);

  // Both products of tokens [first, kTokens); their last rows.
  const auto run = [&](int64_t first) {
    const int64_t tokens = kTokens - first;
    DeviceInputs device;
    ops_->BeginStep({});
    const std::vector<int32_t> chosen(experts.begin() + first * kTopK, experts.end());
    const Routing routing{device.I32(chosen, {tokens, kTopK}),
                          device.F32(Rows(weights, first, tokens, kTopK), {tokens, kTopK})};
    const Tensor up =
        ops_->ExpertsGateUp(device.Bf16s(Rows(x, first, tokens, kNarrow), {tokens, kNarrow}),
                            routing, gate_up, gate_up_bias, {7.0f, 1.702f, 1.0f});
    std::vector<float> values = RowsOnDevice(up, tokens - kRows, kRows);
    const Tensor out = ops_->ExpertsDown(
        device.Bf16s(Rows(inner, first, tokens, kTopK * kNarrow), {tokens, kTopK, kNarrow}),
        routing, down, down_bias);
    const std::vector<float> sums = RowsOnDevice(out, tokens - kRows, kRows);
    values.insert(values.end(), sums.begin(), sums.end());
    return values;
  };
  const std::vector<float> far = run(0);
  ExpectSameBits(far, run(kTokens - kRows));
}

}  // namespace
}  // namespace rose
