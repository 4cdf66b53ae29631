#include "checkpoint/make_checkpoint.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "expect_says.h"
#include "models/load.h"
#include "models/random_model.h"
#include "ops/cpu/cpu_ops.h"
#include "temp_path.h"

namespace rose {
namespace {

namespace fs = std::filesystem;

class MakeCheckpointTest : public testing::Test {
 protected:
  void SetUp() override { fs::remove_all(out_); }
  void TearDown() override { fs::remove_all(out_); }

  Result<MakeCheckpointSummary> Make(const RandomOptions& random, int64_t max_shard_bytes,
                                     const std::string& config = SmallConfig()) const {
    const auto model = CreateModel(config).value();
    return MakeCheckpoint(
        config, model->tensors(),
        {.random = random, .out = out_, .threads = 3, .max_shard_bytes = max_shard_bytes});
  }

  const std::string out_ = TempPath("make_checkpoint_test");
};

bool SameBytes(const Tensor& a, const Tensor& b) {
  if (a.empty() || b.empty()) return a.empty() == b.empty();
  return a.dtype() == b.dtype() && a.bytes() == b.bytes() &&
         std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

// Compares the checkpoint in `folder` with the weights that are made without one.
void ExpectSameWeights(const std::string& folder, const std::string& config,
                       const RandomOptions& random) {
  const LoadedModel read = LoadModel(folder, std::make_unique<CpuOps>(), 2, {}).value();
  const LoadedModel direct =
      LoadRandomModel("x", config, random, std::make_unique<CpuOps>(), {}).value();
  ASSERT_EQ(read.weights.size(), direct.weights.size());
  for (const auto& [name, weight] : direct.weights) {
    const Weight& other = read.weights.at(name);
    EXPECT_TRUE(other.format == weight.format) << name;
    EXPECT_TRUE(SameBytes(other.data, weight.data)) << name << " " << weight.format.ToString();
    EXPECT_TRUE(SameBytes(other.scales, weight.scales)) << name << " " << weight.format.ToString();
  }
}

TEST_F(MakeCheckpointTest, LoadsAsTheWeightsThatAreMadeWithoutOne) {
  for (const WeightFormat& format : {kMxfp4Format, kFp8BlockFormat, kBf16Format}) {
    for (const double zipf : {0.0, 1.0}) {
      const RandomOptions random{.seed = 7, .experts = format, .zipf = zipf};
      const auto made = Make(random, int64_t{1} << 20);
      ASSERT_TRUE(made.ok()) << made.status().message();
      EXPECT_EQ(OpenCheckpoint(out_).value()->bytes(), made->bytes);
      ExpectSameWeights(out_, SmallConfig(), random);
      fs::remove_all(out_);
    }
  }
}

// Blocks of scales are cut at the end of every matrix: 192 and 160 are no multiples of 128.
TEST_F(MakeCheckpointTest, WritesExpertsThatLieApart) {
  const std::string config =
      SmallQwenConfig(R"({"moe_intermediate_size": 192, "hidden_size": 160})");
  for (const WeightFormat& format : {kFp8BlockFormat, kBf16Format}) {
    const RandomOptions random{.seed = 7, .experts = format};
    const auto made = Make(random, int64_t{1} << 20, config);
    ASSERT_TRUE(made.ok()) << made.status().message();
    const auto checkpoint = OpenCheckpoint(out_).value();
    const auto& tensors = checkpoint->tensors();
    EXPECT_EQ(tensors.at("model.layers.1.mlp.experts.7.up_proj.weight").shape,
              (std::vector<int64_t>{192, 160}));
    EXPECT_EQ(tensors.at("model.layers.0.mlp.experts.0.down_proj.weight").shape,
              (std::vector<int64_t>{160, 192}));
    EXPECT_EQ(tensors.contains("model.layers.0.mlp.experts.3.gate_proj.weight_scale_inv"),
              format == kFp8BlockFormat);
    ExpectSameWeights(out_, config, random);
    fs::remove_all(out_);
  }
  const Status refused = Make({}, int64_t{1} << 20, config).status();
  EXPECT_EQ(refused.code(), StatusCode::kUnsupported);
  EXPECT_SAYS(refused.message(), "make the experts bf16 or fp8-block");
}

TEST_F(MakeCheckpointTest, HasThePublishedNamesInSeveralFiles) {
  const auto made = Make({}, 100'000);
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_GT(made->files, 2);
  const auto checkpoint = OpenCheckpoint(out_).value();
  EXPECT_EQ(std::ssize(checkpoint->files()), made->files);
  EXPECT_EQ(std::ssize(checkpoint->tensors()), 19 * 2 + 3);
  EXPECT_EQ(made->tensors, 19 * 2 + 3);
  const StoredTensor& k = checkpoint->tensors().at("model.layers.1.self_attn.k_proj.weight");
  EXPECT_EQ(k.shape, (std::vector<int64_t>{128, 64}));
  EXPECT_TRUE(checkpoint->tensors().contains("model.layers.0.mlp.experts.gate_up_proj_blocks"));
  EXPECT_TRUE(checkpoint->config_json().find("mxfp4") != std::string::npos);
}

TEST_F(MakeCheckpointTest, LeavesWhatIsThereAlone) {
  fs::create_directory(out_);
  EXPECT_SAYS(Make({}, 1 << 20).status().message(), "exists already");
  EXPECT_TRUE(fs::is_empty(out_));
}

// 35 TB for the embedding and as much for the head: more than a disk has. Stopped before it begins,
// should it begin.
TEST_F(MakeCheckpointTest, RefusesWhatHasNoRoomBeforeItWrites) {
  const std::string config = SmallQwenConfig(R"({"vocab_size": 16777216, "hidden_size": 1048576})");
  const auto model = CreateModel(config).value();
  std::atomic<bool> stop = true;
  const Status refused =
      MakeCheckpoint(config, model->tensors(),
                     {.random = {.experts = kBf16Format}, .out = out_, .stop = &stop})
          .status();
  EXPECT_SAYS(refused.message(), "the disk is too full");
  EXPECT_FALSE(fs::exists(PartialName(out_)));
}

TEST_F(MakeCheckpointTest, OfTwoAtOnceOneIsDone) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> there = 0, done = 0;
    const auto make = [&] {
      ++there;
      while (there < 2) std::this_thread::yield();
      done += Make({}, 1 << 20).ok() ? 1 : 0;
    };
    std::thread other(make);
    make();
    other.join();
    ASSERT_EQ(done, 1) << round;
    EXPECT_TRUE(OpenCheckpoint(out_).ok());
    EXPECT_FALSE(fs::exists(PartialName(out_)));
    fs::remove_all(out_);
  }
}

TEST_F(MakeCheckpointTest, LeavesNothingWhenItIsStopped) {
  const auto model = CreateModel(SmallConfig()).value();
  std::atomic<bool> stop = false;
  int64_t written = 0;
  const Status stopped = MakeCheckpoint(SmallConfig(), model->tensors(),
                                        {.out = out_,
                                         .stop = &stop,
                                         .progress =
                                             [&](const LoadProgress& p) {
                                               stop = true;
                                               written = p.done_bytes;
                                             },
                                         .max_shard_bytes = 1 << 20})
                             .status();
  EXPECT_EQ(stopped.code(), StatusCode::kUnavailable);
  EXPECT_SAYS(stopped.message(), "stopped");
  EXPECT_GT(written, 0);
  EXPECT_FALSE(fs::exists(out_));
  EXPECT_FALSE(fs::exists(PartialName(out_)));
}

TEST_F(MakeCheckpointTest, RefusesRowsThatAFormatCannotHold) {
  const std::string config = SmallConfig(R"({"hidden_size": 48, "intermediate_size": 48})");
  const auto model = CreateModel(config).value();
  const Status refused = MakeCheckpoint(config, model->tensors(), {.out = out_}).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_SAYS(refused.message(), "gate_up");
  EXPECT_SAYS(refused.message(), "mxfp4");
  EXPECT_FALSE(fs::exists(out_));
  EXPECT_TRUE(MakeCheckpoint(config, model->tensors(),
                             {.random = {.experts = kFp8BlockFormat}, .out = out_})
                  .ok());
}

}  // namespace
}  // namespace rose
