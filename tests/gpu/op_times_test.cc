// The times of ops: each step's are of the same ops in order, whether it was enqueued plainly,
// recorded or replayed.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/load.h"
#include "ops/cuda/cuda_ops.h"

namespace rose {
namespace {

const std::string kToyA = ROSE_SOURCE_DIR "/tests/data/toy-a";

class GpuOpTimes : public testing::Test {
 protected:
  void SetUp() override {
    if (!IsCudaThere()) GTEST_SKIP() << "no GPU";
    loaded_ = LoadModel(kToyA, CreateCudaOps({}).value(), /*threads=*/1, {}).value();
    kv_ = loaded_.ops->AllocateKv(loaded_.model->info().kv, {1, 1}).value();
  }

  // A sequence's next token.
  void RunStep(int32_t position) {
    const std::vector<int32_t> tokens = {5}, positions = {position}, logit_rows = {0};
    const std::vector<int32_t> table = {0};
    const std::vector<StepSeq> seqs = {
        {.first_row = 0, .rows = 1, .start = position, .pages = {table, table}}};
    const Step step{
        .tokens = tokens, .positions = positions, .seqs = seqs, .logit_rows = logit_rows};
    OpSet& ops = *loaded_.ops;
    ops.BeginStep(step);
    (void)ops.ToHost(ops.Replayed(step, [&] { return loaded_.model->Forward(ops, kv_, step); }));
  }

  // The names in order, "-" for none; and no time is negative.
  std::vector<std::string> TakeNames() {
    std::vector<std::string> names;
    for (const TimedOp& timed : TakeCudaTimes(*loaded_.ops)) {
      names.push_back(timed.op.name == nullptr ? "-" : timed.op.name);
      EXPECT_GE(timed.us, 0) << names.back();
      EXPECT_LT(timed.us, 1e7) << names.back();
    }
    return names;
  }

  LoadedModel loaded_;
  KvCache kv_;
};

TEST_F(GpuOpTimes, OfEveryOpHoweverTheStepRuns) {
  for (int32_t position = 0; position < 3; ++position) RunStep(position);  // recorded without marks
  TimeCudaOps(*loaded_.ops, OpTiming::kOps);
  for (int32_t position = 3; position < 8; ++position) RunStep(position);
  const std::vector<std::string> layer = {
      "gemm",  "rope_append_kv",  "attention",    "gemm",        "add_rms_norm",
      "route", "experts_gate_up", "experts_down", "add_rms_norm"};
  std::vector<std::string> step = {"upload", "-", "embed", "-", "rms_norm", "-"};
  for (int i = 0; i < loaded_.model->info().layers; ++i) {
    step.insert(step.end(), layer.begin(), layer.end());
  }
  step.insert(step.end(), {"logits", "-", "-"});
  std::vector<std::string> all;
  for (int i = 0; i < 5; ++i) all.insert(all.end(), step.begin(), step.end());
  all.pop_back();  // what is behind the last step has no end yet
  EXPECT_EQ(TakeNames(), all);
}

TEST_F(GpuOpTimes, OfStepsAsAWhole) {
  TimeCudaOps(*loaded_.ops, OpTiming::kSteps);
  for (int32_t position = 0; position < 3; ++position) RunStep(position);
  EXPECT_EQ(TakeNames(), (std::vector<std::string>{"upload", "-", "forward", "-", "upload", "-",
                                                   "forward", "-", "upload", "-", "forward"}));
}

TEST_F(GpuOpTimes, NoneUnlessAsked) {
  RunStep(0);
  EXPECT_EQ(TakeNames().size(), 0u);
  TimeCudaOps(*loaded_.ops, OpTiming::kOps);
  RunStep(1);
  TimeCudaOps(*loaded_.ops, OpTiming::kOff);
  RunStep(2);
  EXPECT_EQ(TakeNames().size(), 0u);
}

}  // namespace
}  // namespace rose
