// Weights read piece by piece have the bytes of those that are loaded whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_folder.h"
#include "expect_says.h"
#include "models/model.h"

namespace rose {
namespace {

using Sources = std::vector<std::unique_ptr<WeightSource>>;

// All of a part, in pieces of `bytes`.
std::vector<uint8_t> ReadAll(const WeightSource& source, WeightPart part, int64_t bytes) {
  const Weight& weight = source.weight();
  const int64_t size = part == WeightPart::kData ? weight.data.bytes() : weight.scales.bytes();
  std::vector<uint8_t> all(size);
  for (int64_t at = 0; at < size; at += bytes) {
    const Status status =
        source.Read(part, at, std::span(all).subspan(at, std::min(bytes, size - at)));
    EXPECT_TRUE(status.ok()) << status.message();
  }
  return all;
}

void ExpectSame(const Checkpoint& checkpoint, const std::vector<TensorSpec>& table) {
  const auto host = LoadWeights(checkpoint, table, 2, nullptr);
  ASSERT_TRUE(host.ok()) << host.status().message();
  const auto sources = WeightsInFiles(checkpoint, table);
  ASSERT_TRUE(sources.ok()) << sources.status().message();
  ASSERT_EQ(sources->size(), table.size());
  for (size_t i = 0; i < table.size(); ++i) {
    const WeightSource& source = *(*sources)[i];
    EXPECT_EQ(source.name(), table[i].name);
    const Weight& weight = source.weight();
    const Weight& whole = (*host)->Get(table[i].name);
    EXPECT_EQ(weight.format, whole.format) << source.name();
    EXPECT_EQ(weight.shape, whole.shape) << source.name();
    EXPECT_EQ(weight.data.ToString(), whole.data.ToString()) << source.name();
    EXPECT_EQ(weight.data.raw(), nullptr);
    EXPECT_EQ(weight.scales.ToString(), whole.scales.ToString()) << source.name();
    const auto expect_part = [&](WeightPart part, const Tensor& tensor) {
      const auto* bytes = static_cast<const uint8_t*>(tensor.raw());
      const std::vector<uint8_t> expected(bytes, bytes + tensor.bytes());
      for (const int64_t piece : {int64_t{4}, int64_t{1000}, int64_t{1} << 30}) {
        if (tensor.bytes() / piece > 10'000) continue;
        EXPECT_TRUE(ReadAll(source, part, piece) == expected) << source.name() << " by " << piece;
      }
    };
    expect_part(WeightPart::kData, whole.data);
    expect_part(WeightPart::kScales, whole.scales);
  }
}

TEST(WeightsInFilesTest, HaveTheBytesOfLoadedOnes) {
  // MXFP4 with joined rows; experts apart and woven, in bf16; the same in fp8-block with scales
  // that are repeated.
  for (const char* toy : {"toy-a", "qwen3-moe-toy", "qwen3-moe-toy-fp8"}) {
    SCOPED_TRACE(toy);
    const auto checkpoint = OpenCheckpoint(StrCat(ROSE_SOURCE_DIR, "/tests/data/", toy)).value();
    ExpectSame(*checkpoint, CreateModel(checkpoint->config_json()).value()->tensors());
  }
}

TEST(WeightsInFilesTest, TurnsExpertsThatAreStoredTransposed) {
  CheckpointFolder folder;
  folder.Add("w", DType::kBf16, {3, 96, 70}, Bf16Ramp(3 * 96 * 70));
  folder.Save();
  ExpectSame(*OpenCheckpoint(folder.path()).value(),
             {{"w", TensorKind::kExperts, {3, 70, 96}, {{"w"}}}});
}

TEST(WeightsInFilesTest, TakesTensorsWithoutElements) {
  CheckpointFolder folder;
  folder.Add("none", DType::kBf16, {0}, std::vector<Bf16>());
  folder.Add("some", DType::kBf16, {3}, Bf16Ramp(3));
  folder.Save();
  ExpectSame(*OpenCheckpoint(folder.path()).value(),
             {{"none", TensorKind::kVector, {0}, {{"none"}}},
              {"joined", TensorKind::kVector, {3}, {{"some"}}}});
}

TEST(WeightsInFilesTest, AFileCutShortMeanwhileIsAnErrorThatNamesIt) {
  CheckpointFolder folder;
  folder.Add("first", DType::kBf16, {1000}, Bf16Ramp(1000));
  folder.Add("last", DType::kBf16, {1000}, Bf16Ramp(1000));
  folder.Save();
  const auto checkpoint = OpenCheckpoint(folder.path()).value();
  const std::vector<TensorSpec> table = {{"first", TensorKind::kVector, {1000}, {{"first"}}},
                                         {"last", TensorKind::kVector, {1000}, {{"last"}}}};
  const Sources sources = WeightsInFiles(*checkpoint, table).value();
  const std::string file = folder.path() + "/model.safetensors";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 100);
  ReadAll(*sources[0], WeightPart::kData, 512);
  std::vector<uint8_t> into(200);
  EXPECT_TRUE(sources[1]->Read(WeightPart::kData, 0, into).ok());
  const Status status = sources[1]->Read(WeightPart::kData, 1800, into);
  EXPECT_EQ(status.code(), StatusCode::kIo);
  EXPECT_SAYS(status.message(), "reading tensor 'last': " + file + ": the file ends at byte");
  EXPECT_SAYS(status.message(), "where 100 more are expected");
}

TEST(WeightsInFilesTest, AScaleThatIsNaNIsRefusedWithItsPlace) {
  CheckpointFolder folder;
  folder.Add("w", DType::kE4m3, {2, 64, 96}, std::vector<uint8_t>(2 * 64 * 96, 1));
  folder.Add("w_scale_inv", DType::kF32, {2, 1, 1}, std::vector<float>{1.0f, std::nanf("")});
  folder.Save();
  const auto checkpoint = OpenCheckpoint(folder.path()).value();
  const std::vector<TensorSpec> table = {{"w", TensorKind::kExperts, {2, 64, 96}, {{"w"}}}};
  const Sources sources = WeightsInFiles(*checkpoint, table).value();
  std::vector<uint8_t> scale(4);
  EXPECT_TRUE(sources[0]->Read(WeightPart::kScales, 0, scale).ok());
  const Status status = sources[0]->Read(WeightPart::kScales, 4, scale);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_SAYS(status.message(),
              "tensor 'w_scale_inv' has 1 scale that are NaN or infinite, the first at [1, 0, 0]");
}

TEST(WeightsInFilesTest, MissingTensorsAreListed) {
  CheckpointFolder folder;
  folder.Add("v", DType::kBf16, {3}, Bf16Ramp(3));
  folder.Save();
  const auto checkpoint = OpenCheckpoint(folder.path()).value();
  const std::vector<TensorSpec> table = {{"w", TensorKind::kVector, {3}, {{"w"}}}};
  const auto sources = WeightsInFiles(*checkpoint, table);
  ASSERT_FALSE(sources.ok());
  EXPECT_SAYS(sources.status().message(), "missing (1):");
}

}  // namespace
}  // namespace rose
