// Must: a fault of the device, or a kernel that never ends, ends with a report that names op and
// shapes, and nothing hangs. Each runs in a process of its own, whose device is of no use
// afterwards.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <future>

#include "engine/engine.h"
#include "engine/model_executor.h"
#include "models/load.h"
#include "models/step_runner.h"
#include "ops/cuda/cuda_ops.h"

namespace rose {
namespace {

const std::string kToyA = ROSE_SOURCE_DIR "/tests/data/toy-a";

class GpuFault : public testing::Test {
 protected:
  void SetUp() override {
    if (!IsCudaThere()) GTEST_SKIP() << "no GPU";
    // CUDA does not survive a fork: the child starts anew, and runs the one test.
    testing::FLAGS_gtest_death_test_style = "threadsafe";
  }
};

// The op hangs, for two seconds; then a second is left to tell the requests, as programs leave it.
CudaConfig HangAt(const std::string& op) {
  return {.fault_at = op + ":hang",
          .hang_limit = std::chrono::seconds(2),
          .on_hang = [](const std::string& report) {
            std::fprintf(stderr, "the watch: %s\n", report.c_str());
            ::sleep(1);
            std::_Exit(1);
          }};
}

// A process that the watch does not end fails the test by the signal that does.
constexpr unsigned kMostSeconds = 60;

// Ends the process: 1 and the failure on stderr, or 0.
[[noreturn]] void RunSteps(const CudaConfig& config) {
  ::alarm(kMostSeconds);
  try {
    const LoadedModel loaded =
        LoadModel(kToyA, CreateCudaOps(config).value(), /*threads=*/1, {}).value();
    const auto runner = StepRunner::Create(*loaded.model, *loaded.ops, 1, 64).value();
    const std::vector<int32_t> tokens = {1, 2, 3, 4, 5, 6, 7};
    const std::vector<int32_t> last = {6};
    const SequenceTokens part{0, tokens};
    for (int step = 0; step < 4; ++step) (void)runner->Run({&part, 1}, last);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    std::exit(1);
  }
  std::exit(0);
}

// The same with an engine, whose steps are recorded and replayed; the request must hear of it.
[[noreturn]] void RunEngine(const CudaConfig& config) {
  ::alarm(kMostSeconds);
  const LoadedModel loaded =
      LoadModel(kToyA, CreateCudaOps(config).value(), /*threads=*/1, {}).value();
  std::promise<std::string> failed;
  {
    auto executor = CreateExecutor(*loaded.model, *loaded.ops, {8, 8}).value();
    EngineConfig engine_config;
    engine_config.on_failure = [&](const std::string& error) { failed.set_value(error); };
    const auto engine = CreateEngine(engine_config, std::move(executor), CreatePlainDecoder());
    std::promise<TokenEvent> last;
    Request request;
    request.prompt = {1, 2, 3};
    request.max_tokens = 20;
    request.on_event = [&](const TokenEvent& event) {
      if (event.finish != FinishReason::kNone) last.set_value(event);
    };
    (void)engine->Submit(std::move(request)).value();
    const TokenEvent event = last.get_future().get();
    if (event.finish != FinishReason::kError) std::exit(0);
    std::fprintf(stderr, "the request: %s\n", event.error.c_str());
    std::fprintf(stderr, "the engine: %s\n", failed.get_future().get().c_str());
  }
  std::exit(1);
}

TEST_F(GpuFault, TheReportNamesTheOpIfEachIsWaitedFor) {
  EXPECT_EXIT(RunSteps({.is_sync = true, .fault_at = "experts_down:3"}), testing::ExitedWithCode(1),
              "cudaErrorIllegalAddress.*the fault is in experts_down \\[tokens=7, top_k=.* of "
              "layer 2");
}

// The next launches may find the fault already, so that it is open which ops behind it are listed.
TEST_F(GpuFault, ElseItNamesThoseOfTheStep) {
  EXPECT_EXIT(RunSteps({.fault_at = "route:2"}), testing::ExitedWithCode(1),
              "cudaErrorIllegalAddress.*\nThe fault is in one of these ops.*"
              "\n  route \\[tokens=7, hidden=192, experts=8, top_k=4\\] of layer 1");
}

TEST_F(GpuFault, RequestsOfAnEngineEndWithAnError) {
  // The second step that decodes is recorded, and runs as a graph.
  EXPECT_EXIT(RunEngine({.fault_at = "logits:3"}), testing::ExitedWithCode(1),
              "the request: .*cudaErrorIllegalAddress.*\n  logits \\[tokens=1, vocab=.*"
              "the engine: .*cudaErrorIllegalAddress");
  EXPECT_EXIT(RunEngine({.fault_at = "draw:2"}), testing::ExitedWithCode(1),
              "the request: .*cudaErrorIllegalAddress");
}

// What hung lies between the marks of two norms. The report comes from the watch, since the process
// that frees memory of a device that hangs waits for ever.
TEST_F(GpuFault, AKernelThatNeverEndsEndsTheProcess) {
  EXPECT_EXIT(RunSteps(HangAt("route:2")), testing::ExitedWithCode(1),
              "the watch: the GPU hangs: no sign of progress for 2 s .*\nIt hangs in one of these "
              "ops.*\n  route \\[tokens=7, hidden=192, experts=8, top_k=4\\] of layer 1");
  CudaConfig config = HangAt("experts_down:3");
  config.is_sync = true;
  EXPECT_EXIT(RunSteps(config), testing::ExitedWithCode(1),
              "the watch: the GPU hangs.*; it hangs in experts_down \\[tokens=7, top_k=.* of layer "
              "2");
}

TEST_F(GpuFault, RequestsHearOfAKernelThatNeverEnds) {
  // The second step that decodes is recorded, and hangs as a graph.
  EXPECT_EXIT(RunEngine(HangAt("logits:3")), testing::ExitedWithCode(1),
              "the request: .*waiting for a step: the GPU hangs.*\n  logits \\[tokens=1, vocab=");
  EXPECT_EXIT(RunEngine(HangAt("draw:2")), testing::ExitedWithCode(1),
              "the request: .*waiting for a step: the GPU hangs.*draw \\[draws=1, vocab=");
}

TEST_F(GpuFault, WithoutOneAllIsWell) {
  EXPECT_EXIT(RunSteps({.is_sync = true}), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(RunEngine({.is_sync = true}), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(RunEngine(HangAt("logits:1000")), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace rose
