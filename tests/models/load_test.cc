// LoadModel with an op set that takes its weights from their files.
#include "models/load.h"

#include <gtest/gtest.h>

#include <atomic>

#include "expect_says.h"
#include "models/step_runner.h"
#include "ops/cpu/cpu_ops.h"

namespace rose {
namespace {

const std::string kToyA = ROSE_SOURCE_DIR "/tests/data/toy-a";

// Reads nothing before FinishFetch.
class FetchingOps : public CpuOps {
 public:
  explicit FetchingOps(Status outcome = Status()) : outcome_(std::move(outcome)) {}

  bool fetches() const override { return true; }
  Result<Weight> Adopt(const Weight&) override { return Unsupported("adopts nothing"); }

  Result<std::vector<Weight>> StartFetch(const std::vector<std::unique_ptr<WeightSource>>& sources,
                                         std::function<void(int64_t)> progress) override {
    progress_ = std::move(progress);
    std::vector<Weight> weights;
    for (const auto& source : sources) {
      Weight weight = source->weight();
      for (Tensor* tensor : {&weight.data, &weight.scales}) {
        if (tensor->empty()) continue;
        const auto part = tensor == &weight.data ? WeightPart::kData : WeightPart::kScales;
        parts_.push_back({source.get(), part, std::vector<uint8_t>(tensor->bytes())});
        *tensor = Tensor(parts_.back().bytes.data(), tensor->dtype(), tensor->shape());
      }
      weights.push_back(std::move(weight));
    }
    return weights;
  }

  Status FinishFetch() override {
    int64_t done = 0;
    for (Part& part : parts_) {
      ROSE_RETURN_IF_ERROR(part.source->Read(part.part, 0, part.bytes));
      done += std::ssize(part.bytes);
      if (progress_) progress_(done);
    }
    return outcome_;
  }

 private:
  struct Part {
    const WeightSource* source;
    WeightPart part;
    std::vector<uint8_t> bytes;
  };
  const Status outcome_;
  std::function<void(int64_t)> progress_;
  std::vector<Part> parts_;
};

std::vector<float> LogitsOf(LoadedModel& loaded) {
  const auto runner = StepRunner::Create(*loaded.model, *loaded.ops, 1, 8).value();
  const std::vector<int32_t> tokens = {1, 2, 3, 4};
  const SequenceTokens part{0, tokens};
  const std::vector<int32_t> rows = {3};
  const Tensor logits = runner->Run({&part, 1}, rows);
  return {logits.data<float>(), logits.data<float>() + logits.elements()};
}

TEST(LoadModelTest, FetchedWeightsAreThoseThatAreAdopted) {
  LoadedModel adopted = LoadModel(kToyA, std::make_unique<CpuOps>(), 2, {}).value();
  LoadProgress last;
  LoadedModel fetched =
      LoadModel(kToyA, std::make_unique<FetchingOps>(), 2, [&](const LoadProgress& progress) {
        last = progress;
      }).value();
  EXPECT_EQ(fetched.host_weights, nullptr);
  EXPECT_EQ(last.done_bytes, fetched.checkpoint->bytes());
  EXPECT_EQ(last.total_bytes, fetched.checkpoint->bytes());
  EXPECT_EQ(LogitsOf(adopted), LogitsOf(fetched));
}

TEST(LoadModelTest, StartLoadingReturnsBeforeTheWeightsAreThere) {
  LoadedModel loaded = StartLoading(kToyA, std::make_unique<FetchingOps>(), 2, {}).value();
  const Weight& norm = loaded.weights.find("final_norm")->second;
  EXPECT_EQ(ToFloat(norm.data.data<Bf16>()[0]), 0.0f);
  ASSERT_TRUE(FinishLoading(loaded).ok());
  EXPECT_NE(ToFloat(norm.data.data<Bf16>()[0]), 0.0f);
}

TEST(LoadModelTest, WhatFetchingFailsOfIsReported) {
  const auto loaded =
      LoadModel(kToyA, std::make_unique<FetchingOps>(IoError("the disk is gone")), 2, {});
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.status().code(), StatusCode::kIo);
  EXPECT_SAYS(loaded.status().message(), "the disk is gone");
}

}  // namespace
}  // namespace rose
