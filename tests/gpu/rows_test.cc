// Row ops of the CUDA op set against the reference.
#include "gpu/gpu_case.h"

namespace rose {
namespace {

constexpr float kEps = 1e-5f;

class GpuRows : public GpuTest<testing::TestWithParam<std::tuple<int64_t, int64_t>>> {};

TEST_P(GpuRows, EmbedNormsAndGatherEqualTheReference) {
  const auto [tokens, hidden] = GetParam();
  Inputs in(tokens * 10000 + hidden);
  const Weight table = in.RandomMatrix(kBf16Format, {11, hidden});
  const Weight norm = in.RandomVector({hidden});
  const Weight table_on_gpu = ops_->Adopt(table).value();
  const Weight norm_on_gpu = ops_->Adopt(norm).value();
  const StepInputs rows({{0, std::max<int64_t>(1, tokens), {0}}});
  std::vector<int32_t> ids, positions, wanted;
  for (int64_t t = 0; t < tokens; ++t) {
    ids.push_back(static_cast<int32_t>(t * 7 % 11));
    positions.push_back(static_cast<int32_t>(t));
    if (t % 2 == 0) wanted.push_back(static_cast<int32_t>(t));
  }
  Step step{ids, positions, {}, wanted};
  if (tokens > 0) step.seqs = rows.step().seqs;
  ops_->BeginStep(step);
  reference_.BeginStep(step);

  Tensor x = ops_->Embed(step, table_on_gpu);
  Tensor y = reference_.Embed(step, table);
  ExpectSameBits(Floats(*ops_, x), ToVector(y));
  ExpectNear(Floats(*ops_, ops_->RmsNorm(x, norm_on_gpu, kEps)),
             ToVector(reference_.RmsNorm(y, norm, kEps)), kBf16Bound);

  const std::vector<float> delta = RoundedToBf16(in.Values(tokens * hidden));
  DeviceInputs device;
  const Tensor normed =
      ops_->AddRmsNorm(x, device.Bf16s(delta, {tokens, hidden}), norm_on_gpu, kEps);
  const Tensor expected = reference_.AddRmsNorm(y, in.F32(delta, {tokens, hidden}), norm, kEps);
  ExpectSameBits(Floats(*ops_, x), ToVector(y));
  const std::vector<float> normed_values = Floats(*ops_, normed);
  ExpectNear(normed_values, ToVector(expected), kBf16Bound);

  ExpectSameBits(Floats(*ops_, ops_->GatherLogitRows(x, step)),
                 ToVector(reference_.GatherLogitRows(y, step)));
  const std::vector<float> gathered = Floats(*ops_, ops_->GatherLogitRows(normed, step));
  for (size_t i = 0; i < wanted.size(); ++i) {
    ExpectSameBits(Rows(gathered, static_cast<int64_t>(i), 1, hidden),
                   Rows(normed_values, wanted[i], 1, hidden));
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, GpuRows,
                         testing::Combine(testing::Values<int64_t>(0, 1, 2, 17, 131),
                                          testing::Values<int64_t>(8, 192, 320, 2048, 2880, 3080)));

class GpuEmbed : public GpuTest<testing::TestWithParam<WeightFormat>> {};

TEST_P(GpuEmbed, TakesTablesOfAnyFormat) {
  Inputs in;
  FastWeights weights(3);
  const Weight table = weights.Matrix(GetParam(), {257, 320});
  const std::vector<int32_t> ids = {256, 0, 3, 3, 128, 127, 129}, positions(ids.size());
  const StepInputs rows({{0, std::ssize(ids), {0}}});
  const Step step{ids, positions, rows.step().seqs, {}};
  ops_->BeginStep(step);
  reference_.BeginStep(step);
  ExpectSameBits(Floats(*ops_, ops_->Embed(step, ops_->Adopt(table).value())),
                 ToVector(reference_.Embed(step, table)));
}

INSTANTIATE_TEST_SUITE_P(Formats, GpuEmbed,
                         testing::Values(kBf16Format, kMxfp4Format, kFp8BlockFormat));

class GpuArena : public GpuTest<> {};

TEST_F(GpuArena, SeesWhatIsWrittenBehindAnOutput) {
  const std::vector<int32_t> row = {0};
  const StepInputs one({{0, 1, {0}}});
  const Step step{row, row, one.step().seqs, row};
  ops_->BeginStep(step);
  DeviceInputs device;
  const Tensor out = ops_->GatherLogitRows(device.F32(std::vector<float>(8), {1, 8}), step);
  CudaCheck(cudaDeviceSynchronize(), "waiting");
  CudaCheck(cudaMemset(out.data<float>() + 8, 0, 1), "writing behind");
  CudaCheck(cudaDeviceSynchronize(), "waiting");
  EXPECT_THROW(ops_->BeginStep({}), CheckFailure);
  ops_ = nullptr;
}

TEST_F(GpuArena, OutOfMemorySaysWhatWasAskedAndWhatToChange) {
  const KvLayout layout{.groups = {{.window = 0, .layers = {0}}}, .kv_heads = 8, .head_dim = 128};
  const auto cache = ops_->AllocateKv(layout, {int64_t{1} << 24});
  ASSERT_FALSE(cache.ok());
  EXPECT_EQ(cache.status().code(), StatusCode::kUnavailable);
  EXPECT_NE(cache.status().message().find("GB asked"), std::string::npos);
  EXPECT_NE(cache.status().message().find("--kv-memory"), std::string::npos);
  std::printf("%s\n", cache.status().message().c_str());
}

TEST_F(GpuArena, PagesAreCopiedOutAndBackAndWithin) {
  const KvLayout layout{.groups = {{.window = 0, .layers = {0, 2}}, {.window = 64, .layers = {1}}},
                        .kv_heads = 2,
                        .head_dim = 32};
  KvCache cache = ops_->AllocateKv(layout, {5, 3}).value();
  KvCache host = ops_->AllocateHostKv(layout, {2, 2}).value();
  const auto page = [&](const Tensor& tensor, int64_t index) {
    std::vector<uint8_t> bytes(tensor.bytes() / tensor.dim(0));
    CudaCheck(cudaDeviceSynchronize(), "waiting");
    CudaCheck(cudaMemcpy(bytes.data(), static_cast<std::byte*>(tensor.raw()) + index * bytes.size(),
                         bytes.size(), cudaMemcpyDefault),
              "reading a page");
    return bytes;
  };
  const size_t bytes = page(cache.layers[0].keys, 0).size();
  EXPECT_EQ(page(cache.layers[0].keys, 4), std::vector<uint8_t>(bytes, 0)) << "zero-filled";
  uint8_t fill = 1;
  for (KvLayer& layer : cache.layers) {
    for (Tensor* tensor : {&layer.keys, &layer.values}) {
      for (int64_t p = 0; p < tensor->dim(0); ++p) {
        CudaCheck(cudaMemset(static_cast<std::byte*>(tensor->raw()) + p * bytes, fill++, bytes),
                  "filling");
      }
    }
  }
  CudaCheck(cudaDeviceSynchronize(), "waiting");
  ops_->CopyPages(cache, host,
                  {.to_host = {{0, 3, 1}}, .to_device = {{0, 1, 2}}, .within = {{0, 2, 0}}});
  fill = 1;
  for (KvLayer& layer : cache.layers) {
    for (Tensor* tensor : {&layer.keys, &layer.values}) {
      for (int64_t p = 0; p < tensor->dim(0); ++p) {
        const bool is_copied = layer.group == 0 && (p == 0 || p == 2);
        const auto expected = static_cast<uint8_t>(fill + (is_copied ? 3 - p : 0));
        EXPECT_EQ(page(*tensor, p), std::vector<uint8_t>(bytes, expected)) << "page " << p;
        ++fill;
      }
    }
  }
  EXPECT_EQ(page(host.layers[1].keys, 1), std::vector<uint8_t>(bytes, 0));
}

}  // namespace
}  // namespace rose
