// Weights that are fetched from files have the bytes on the device of those that are adopted,
// however small the ring and its pieces.
#include "ops/cuda/weight_upload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <future>

#include "checkpoint/checkpoint_folder.h"
#include "device/cuda_check.h"
#include "device/memory.h"
#include "expect_says.h"
#include "models/load.h"

namespace rose {
namespace {

std::unique_ptr<OpSet> Ops(const UploadConfig& upload) {
  return CreateCudaOps({.upload = upload}).value();
}

std::vector<uint8_t> BytesOf(const Tensor& on_device) {
  std::vector<uint8_t> bytes(on_device.bytes());
  // Adopt leaves copies in a stream that the default one does not wait for.
  CudaCheck(cudaDeviceSynchronize(), "adopting a weight");
  CudaCheck(cudaMemcpy(bytes.data(), on_device.raw(), bytes.size(), cudaMemcpyDeviceToHost),
            "reading a weight");
  return bytes;
}

class GpuWeightUploadOf : public testing::TestWithParam<std::string> {};

TEST_P(GpuWeightUploadOf, HasTheBytesOfAdoptedWeights) {
  if (!IsCudaThere()) GTEST_SKIP() << "no GPU";
  const UploadConfig configs[] = {
      {},
      {.readers = 1, .pieces = 1, .piece_bytes = 4096, .batch_bytes = 1},
      {.readers = 5, .pieces = 3, .piece_bytes = 1000, .batch_bytes = 100'000},
      {.readers = 3, .pieces = 7, .piece_bytes = 65536, .batch_bytes = 60'000}};
  for (const UploadConfig& config : configs) {
    SCOPED_TRACE(StrCat("by ", config.piece_bytes));
    std::atomic<int64_t> done{0};
    const LoadedModel loaded =
        LoadModel(StrCat(ROSE_SOURCE_DIR, "/tests/data/", GetParam()), Ops(config), 1,
                  [&](const LoadProgress& progress) { done = progress.done_bytes; })
            .value();
    const std::vector<TensorSpec>& table = loaded.model->tensors();
    const auto host = LoadWeights(*loaded.checkpoint, table, 1, {}).value();
    int64_t bytes = 0;
    for (const TensorSpec& spec : table) {
      const Weight& fetched = loaded.weights.find(spec.name)->second;
      const Weight adopted = loaded.ops->Adopt(host->Get(spec.name)).value();
      EXPECT_EQ(fetched.format, adopted.format);
      EXPECT_EQ(fetched.shape, adopted.shape);
      EXPECT_EQ(fetched.data.ToString(), adopted.data.ToString()) << spec.name;
      EXPECT_TRUE(BytesOf(fetched.data) == BytesOf(adopted.data)) << spec.name;
      EXPECT_EQ(fetched.scales.ToString(), adopted.scales.ToString()) << spec.name;
      EXPECT_TRUE(BytesOf(fetched.scales) == BytesOf(adopted.scales)) << spec.name;
      bytes += host->Get(spec.name).bytes();
    }
    EXPECT_EQ(done, bytes);
  }
}

// Packing waits for room on a device that multiplies meanwhile, while copies go on: they must not
// reach experts that are not packed yet.
TEST_P(GpuWeightUploadOf, HasTheBytesWhereTheDeviceIsBusy) {
  if (!IsCudaThere()) GTEST_SKIP() << "no GPU";
  constexpr int64_t kRows = 4096, kCols = 2880;
  const DeviceMemory zeros = AllocateDevice(kRows * kCols * 2, "a test", "").value();
  CudaCheck(cudaMemset(zeros.get(), 0, kRows * kCols * 2), "filling");
  CudaCheck(cudaDeviceSynchronize(), "filling");
  const Tensor x(zeros.get(), DType::kBf16, {kRows, kCols});
  const Weight weight{kBf16Format, {kRows, kCols}, x, {}};
  auto ops = Ops({.readers = 3, .pieces = 40, .piece_bytes = 16384, .batch_bytes = 30'000});
  ops->BeginStep({});
  for (int i = 0; i < 60; ++i) {
    ops->BeginLayer();
    (void)ops->Gemm(x, weight, {});
  }
  const LoadedModel loaded =
      LoadModel(StrCat(ROSE_SOURCE_DIR, "/tests/data/", GetParam()), std::move(ops), 1, {}).value();
  const std::vector<TensorSpec>& table = loaded.model->tensors();
  const auto host = LoadWeights(*loaded.checkpoint, table, 1, {}).value();
  for (const TensorSpec& spec : table) {
    const Weight adopted = loaded.ops->Adopt(host->Get(spec.name)).value();
    EXPECT_TRUE(BytesOf(loaded.weights.find(spec.name)->second.data) == BytesOf(adopted.data))
        << spec.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Toys, GpuWeightUploadOf,
                         testing::Values("toy-a", "qwen3-moe-toy", "qwen3-moe-toy-fp8"));

TEST(GpuWeightUpload, AFileCutShortMeanwhileEndsLoading) {
  if (!IsCudaThere()) GTEST_SKIP() << "no GPU";
  const CheckpointFolder folder;
  std::filesystem::copy(
      ROSE_SOURCE_DIR "/tests/data/toy-a", folder.path(),
      std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
  const auto checkpoint = OpenCheckpoint(folder.path()).value();
  const auto model = CreateModel(checkpoint->config_json()).value();
  const auto sources = WeightsInFiles(*checkpoint, model->tensors()).value();
  const std::string file = folder.path() + "/" + checkpoint->files().front();
  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  const auto ops = Ops({.pieces = 4, .piece_bytes = 4096});
  ASSERT_TRUE(ops->StartFetch(sources, {}).ok());
  const Status status = ops->FinishFetch();
  EXPECT_EQ(status.code(), StatusCode::kIo);
  EXPECT_SAYS(status.message(), "the file ends at byte");
}

TEST(GpuWeightUpload, AnOpSetMayGoMeanwhile) {
  if (!IsCudaThere()) GTEST_SKIP() << "no GPU";
  for (int i = 0; i < 5; ++i) {
    (void)StartLoading(ROSE_SOURCE_DIR "/tests/data/toy-a",
                       Ops({.readers = 4, .pieces = 2, .piece_bytes = 4096}), 1, {})
        .value();
  }
}

// Leaves free memory of the device that is full of ones, in places of `bytes` between others that
// the result keeps.
std::vector<DeviceMemory> LeaveOnes(int64_t bytes) {
  std::vector<DeviceMemory> kept, freed;
  for (int i = 0; i < 16; ++i) {
    DeviceMemory memory = AllocateDevice(bytes, "a test", "").value();
    CudaCheck(cudaMemset(memory.get(), 0x7f, bytes), "filling");
    (i % 2 == 0 ? kept : freed).push_back(std::move(memory));
  }
  CudaCheck(cudaDeviceSynchronize(), "filling");
  return kept;
}

// Two stacks of experts, one of which has a scale of its own, and what loading them ends with.
Status LoadStacks(int which, uint8_t scale) {
  CheckpointFolder folder;
  const std::string names[] = {"v", "w"};
  std::vector<TensorSpec> specs;
  for (int i = 0; i < 2; ++i) {
    std::vector<uint8_t> scales(2 * 64 * 3, 125);
    if (i == which) scales[100] = scale;
    folder.Add(names[i] + "_blocks", DType::kU8, {2, 64, 3, 16},
               std::vector<uint8_t>(2 * 64 * 48, 0x12));
    folder.Add(names[i] + "_scales", DType::kU8, {2, 64, 3}, scales);
    specs.push_back({names[i], TensorKind::kExperts, {2, 64, 96}, {{names[i]}}});
  }
  folder.Save();
  const auto checkpoint = OpenCheckpoint(folder.path()).value();
  const auto sources = WeightsInFiles(*checkpoint, specs).value();
  const auto ops = Ops({});
  EXPECT_TRUE(ops->StartFetch(sources, {}).ok());
  return ops->FinishFetch();
}

TEST(GpuWeightUpload, ScalesThatNoKernelTakesAreRefusedByName) {
  if (!IsCudaThere()) GTEST_SKIP() << "no GPU";
  EXPECT_SAYS(LoadStacks(0, 254).message(), "v: experts with an MXFP4 scale of 2^127");
  EXPECT_SAYS(LoadStacks(1, 254).message(), "w: experts with an MXFP4 scale of 2^127");
  const std::vector<DeviceMemory> kept = LeaveOnes(2 * sizeof(int32_t));
  EXPECT_TRUE(LoadStacks(1, 126).ok()) << "what memory held before is no scale";
}

// A vector of sevens that cannot be read before somebody says so.
class HeldSource : public WeightSource {
 public:
  explicit HeldSource(std::shared_future<void> may_be_read)
      : may_be_read_(std::move(may_be_read)) {}
  const std::string& name() const override { return name_; }
  const Weight& weight() const override { return weight_; }
  Status Read(WeightPart, int64_t, std::span<uint8_t> to) const override {
    may_be_read_.wait();
    std::ranges::fill(to, 7);
    return Status();
  }

 private:
  const std::shared_future<void> may_be_read_;
  const std::string name_ = "held";
  const Weight weight_{kBf16Format, {100'000}, Tensor(nullptr, DType::kBf16, {100'000}), {}};
};

// Steps that warm up run on weights that are not there yet, in memory that somebody had before.
TEST(GpuWeightUpload, WeightsAreZerosUntilTheyAreThere) {
  if (!IsCudaThere()) GTEST_SKIP() << "no GPU";
  const auto ops = Ops({});
  const std::vector<DeviceMemory> kept = LeaveOnes(200'000);
  std::promise<void> release;
  std::vector<std::unique_ptr<WeightSource>> sources;
  sources.push_back(std::make_unique<HeldSource>(release.get_future().share()));
  const auto weights = ops->StartFetch(sources, {});
  const bool is_started = weights.ok();
  if (is_started) {
    EXPECT_EQ(BytesOf(weights.value()[0].data), std::vector<uint8_t>(200'000, 0));
  }
  release.set_value();
  ASSERT_TRUE(is_started);
  ASSERT_TRUE(ops->FinishFetch().ok());
  EXPECT_EQ(BytesOf(weights.value()[0].data), std::vector<uint8_t>(200'000, 7));
}

// A matrix of 1.1 TB.
class HugeSource : public WeightSource {
 public:
  const std::string& name() const override { return name_; }
  const Weight& weight() const override { return weight_; }
  Status Read(WeightPart, int64_t, std::span<uint8_t>) const override {
    return IoError("nobody reads it");
  }

 private:
  const std::string name_ = "huge";
  const std::vector<int64_t> shape_ = {int64_t{1} << 20, int64_t{1} << 19};
  const Weight weight_{kBf16Format, shape_, Tensor(nullptr, DType::kBf16, shape_), {}};
};

TEST(GpuWeightUpload, SaysWhatIsMissingWhereThereIsNoMemory) {
  if (!IsCudaThere()) GTEST_SKIP() << "no GPU";
  std::vector<std::unique_ptr<WeightSource>> sources;
  sources.push_back(std::make_unique<HugeSource>());
  const auto ops = Ops({});
  const auto weights = ops->StartFetch(sources, {});
  ASSERT_FALSE(weights.ok());
  EXPECT_EQ(weights.status().code(), StatusCode::kUnavailable);
  EXPECT_SAYS(weights.status().message(),
              "the GPU has no room for the weights: 1099.51 GB asked, ");
  EXPECT_SAYS(weights.status().message(), " GB free; a model of fewer parameters");
}

}  // namespace
}  // namespace rose
