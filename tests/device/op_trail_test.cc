// What a report says of ops. Nothing here needs a GPU: no op is really enqueued.
#include "device/op_trail.h"

#include <gtest/gtest.h>

#include "base/check.h"
#include "device/cuda_check.h"

namespace rose {
namespace {

// Two layers of two ops, and one behind them.
void AddStep(OpTrail& trail, int64_t tokens) {
  trail.LeaveLayers();
  for (int layer = 0; layer < 2; ++layer) {
    trail.BeginLayer();
    const OpScope gemm(trail, "gemm", {{"tokens", tokens}, {"rows", 96}});
    const OpScope route(trail, "route", {{"tokens", tokens}});
  }
  trail.LeaveLayers();
  const OpScope logits(trail, "logits", {{"tokens", tokens}, {"vocab", 300}});
}

std::string MessageOf(cudaError_t error) {
  try {
    CudaCheck(error, "waiting");
  } catch (const CheckFailure& failure) {
    return failure.what();
  }
  return "";
}

TEST(OpTrail, NamesAllOpsThatNobodyHasWaitedFor) {
  OpTrail trail(nullptr, {});
  AddStep(trail, 8);
  trail.Finished(trail.position() - 4);  // the first gemm went well
  EXPECT_EQ(DescribeOps(cudaErrorIllegalAddress),
            "\nThe fault is in one of these ops (ROSE_SYNC_OPS=1 waits for each and names the "
            "one):"
            "\n  route [tokens=8], 2 times in layers 0 to 1"
            "\n  gemm [tokens=8, rows=96] of layer 1"
            "\n  logits [tokens=8, vocab=300]");
}

TEST(OpTrail, KeepsShapesApart) {
  OpTrail trail(nullptr, {});
  AddStep(trail, 8);
  AddStep(trail, 1);
  const std::string text = DescribeOps(cudaErrorLaunchFailure);
  EXPECT_NE(text.find("\n  gemm [tokens=8, rows=96], 2 times"), std::string::npos) << text;
  EXPECT_NE(text.find("\n  gemm [tokens=1, rows=96], 2 times"), std::string::npos) << text;
}

TEST(OpTrail, NamesTheOnlyOneOnTheSameLine) {
  OpTrail trail(nullptr, {});
  AddStep(trail, 8);
  trail.Finished(trail.position() - 1);
  EXPECT_EQ(DescribeOps(cudaErrorIllegalAddress), "; the fault is in logits [tokens=8, vocab=300]");
  trail.Finished(trail.position());
  EXPECT_EQ(DescribeOps(cudaErrorIllegalAddress), "");
}

TEST(OpTrail, ReplayedOpsAreNamedAsTheyWereRecorded) {
  OpTrail trail(nullptr, {});
  const int64_t before = trail.position();
  AddStep(trail, 3);
  const RecordedOps recorded = trail.Recorded(before);
  EXPECT_EQ(DescribeOps(cudaErrorIllegalAddress), "") << "they were recorded, not enqueued";
  trail.Replayed(recorded);
  const std::string text = DescribeOps(cudaErrorIllegalAddress);
  EXPECT_NE(text.find("one of these ops"), std::string::npos) << text;
  EXPECT_NE(text.find("gemm [tokens=3, rows=96], 2 times in layers 0 to 1"), std::string::npos);
}

// A step of two layers in which the first op and each norm leave marks.
void AddMarkedStep(OpTrail& trail) {
  trail.BeginStep();
  const auto add = [&](const char* name, bool has_mark) {
    const OpScope scope(trail, name, {{"tokens", 2}});
    if (has_mark) (void)trail.NewMark(2);
  };
  add("upload", false);
  trail.BeginForward();
  add("embed", true);
  for (int layer = 0; layer < 2; ++layer) {
    trail.BeginLayer();
    add("gemm", false);
    add("norm", true);
  }
  trail.LeaveLayers();
  add("logits", false);
  trail.EndForward();
}

TEST(OpTrail, MarksNarrowDownWhereTheFaultIs) {
  volatile int32_t progress = 0;
  OpTrail trail(nullptr, {.progress = &progress});
  AddMarkedStep(trail);
  const std::string all = DescribeOps(cudaErrorIllegalAddress);  // no mark was left yet
  EXPECT_NE(all.find("gemm [tokens=2], 2 times in layers 0 to 1"), std::string::npos) << all;
  progress = 3;  // the norm of layer 0 is the third op of the forward pass
  EXPECT_EQ(DescribeOps(cudaErrorIllegalAddress),
            "\nThe fault is in one of these ops (ROSE_SYNC_OPS=1 waits for each and names the "
            "one):"
            "\n  norm [tokens=2], 2 times in layers 0 to 1"
            "\n  gemm [tokens=2] of layer 1");
}

// A step may want no logits: its last norm has no rows then.
TEST(OpTrail, WhatHasNoRowsLeavesNoMark) {
  volatile int32_t progress = 1;
  OpTrail trail(nullptr, {.progress = &progress});
  trail.BeginForward();
  {
    const OpScope norm(trail, "norm", {{"tokens", 2}});
    EXPECT_EQ(trail.NewMark(2).value, 1);
  }
  {
    const OpScope norm(trail, "norm", {{"tokens", 0}});
    EXPECT_EQ(trail.NewMark(0).where, nullptr);
  }
  {
    const OpScope upload(trail, "upload", {});
  }
  EXPECT_NE(DescribeOps(cudaErrorIllegalAddress).find("\n  upload []"), std::string::npos);
}

// The last mark of a step stands until the next step leaves its first.
TEST(OpTrail, MarksOfTheStepBefore) {
  volatile int32_t progress = 0;
  OpTrail trail(nullptr, {.progress = &progress});
  AddMarkedStep(trail);
  trail.Finished(trail.position());
  AddMarkedStep(trail);
  progress = 5;
  const std::string text = DescribeOps(cudaErrorIllegalAddress);
  EXPECT_EQ(text.find("gemm"), std::string::npos) << text;
  for (const char* op : {"upload [", "embed [", "norm [tokens=2] of layer 1", "logits ["}) {
    EXPECT_NE(text.find(op), std::string::npos) << op << " is not in " << text;
  }
}

TEST(OpTrail, ARefusedLaunchNamesTheOpItBelongsTo) {
  OpTrail trail(nullptr, {});
  AddStep(trail, 8);
  EXPECT_EQ(DescribeOps(cudaErrorInvalidConfiguration), "") << "no op is being enqueued";
  trail.BeginLayer();
  const OpScope scope(trail, "experts_down", {{"tokens", 5}, {"top_k", 4}});
  const std::string message = MessageOf(cudaErrorInvalidConfiguration);
  EXPECT_NE(message.find("waiting: cudaErrorInvalidConfiguration"), std::string::npos) << message;
  EXPECT_NE(message.find("; in experts_down [tokens=5, top_k=4] of layer 0"), std::string::npos)
      << message;
}

TEST(OpTrail, KeepsTheLastOpsOfVeryManyWithoutGrowing) {
  OpTrail trail(nullptr, {});
  for (int64_t i = 0; i < OpTrail::kRecords + 10; ++i) {
    const OpScope scope(trail, i % 2 == 0 ? "even" : "odd", {{"tokens", 1}});
  }
  const std::string text = DescribeOps(cudaErrorIllegalAddress);
  EXPECT_NE(text.find("even [tokens=1], 1024 times\n"), std::string::npos) << text;
}

TEST(OpTrail, ARecordHasTheLastOpsOfVeryMany) {
  OpTrail trail(nullptr, {});
  for (int64_t i = 0; i < OpTrail::kRecords + 10; ++i) {
    const OpScope scope(trail, "gemm", {{"number", i}});
  }
  const RecordedOps recorded = trail.Recorded(0);
  ASSERT_EQ(std::ssize(recorded.ops), OpTrail::kRecords);
  EXPECT_EQ(recorded.ops.front().sizes[0].size, 10);
  EXPECT_EQ(recorded.ops.back().sizes[0].size, OpTrail::kRecords + 9);
}

TEST(OpTrail, TheSameOpOutsideOfLayersHasALineOfItsOwn) {
  OpTrail trail(nullptr, {});
  {
    const OpScope norm(trail, "norm", {{"tokens", 2}});
  }
  trail.BeginLayer();
  {
    const OpScope norm(trail, "norm", {{"tokens", 2}});
  }
  const std::string text = DescribeOps(cudaErrorIllegalAddress);
  EXPECT_NE(text.find("\n  norm [tokens=2]\n  norm [tokens=2] of layer 0"), std::string::npos)
      << text;
}

// A step that failed between its layers leaves the next one's ops outside of them.
TEST(OpTrail, AStepBeginsOutsideOfLayers) {
  OpTrail trail(nullptr, {});
  trail.BeginLayer();
  trail.BeginStep();
  const OpScope upload(trail, "upload", {{"tokens", 2}});
  EXPECT_EQ(DescribeOps(cudaErrorIllegalAddress), "; the fault is in upload [tokens=2]");
}

// Draws are waited for later than what was enqueued behind them.
TEST(OpTrail, WaitingForEarlierOpsTakesNothingBack) {
  OpTrail trail(nullptr, {});
  AddStep(trail, 8);
  trail.Finished(trail.position());
  trail.Finished(1);
  EXPECT_EQ(DescribeOps(cudaErrorIllegalAddress), "");
}

TEST(OpTrail, AReplayIsOfTheTrailThatReportsAreAbout) {
  OpTrail trail(nullptr, {}), other(nullptr, {});
  AddStep(trail, 3);
  const RecordedOps recorded = trail.Recorded(0);
  {
    const OpScope draw(other, "draw", {});
  }
  trail.Replayed(recorded);
  const std::string text = DescribeOps(cudaErrorIllegalAddress);
  EXPECT_NE(text.find("logits [tokens=3, vocab=300]"), std::string::npos) << text;
  EXPECT_EQ(text.find("draw"), std::string::npos) << text;
}

TEST(OpTrail, NoTrailNoWord) {
  {
    OpTrail gone(nullptr, {});
    AddStep(gone, 1);
  }
  EXPECT_EQ(DescribeOps(cudaErrorIllegalAddress), "");
}

}  // namespace
}  // namespace rose
