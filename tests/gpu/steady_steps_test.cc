// Must: once the largest steps have run, no step takes memory of the device.
#include <gtest/gtest.h>

#include <memory>

#include "device/memory.h"
#include "engine/device_executor.h"
#include "engine/step_loop.h"
#include "models/load.h"
#include "models/warm_up.h"
#include "ops/cuda/cuda_ops.h"

namespace rose {
namespace {

TEST(GpuSteadySteps, TakeNoMemory) {
  if (!IsCudaThere()) GTEST_SKIP() << "no GPU";
  constexpr int64_t kSequences = 6, kContext = 400;
  const LoadedModel loaded =
      LoadModel(ROSE_SOURCE_DIR "/tests/data/toy-a", CreateCudaOps({}).value(), 1, {}).value();
  const SchedulerLimits limits{
      .max_running = kSequences, .max_step_tokens = 256, .prefill_chunk = 256};
  ASSERT_TRUE(WarmUp(*loaded.model, *loaded.ops,
                     {.rows = limits.max_step_tokens,
                      .sequences = kSequences,
                      .context = kContext,
                      .logit_rows = kSequences})
                  .ok());
  const std::vector<int64_t> pages(loaded.model->info().kv.groups.size(), 64);
  const auto executor =
      CreateDeviceExecutor(*loaded.model, *loaded.ops, pages, /*host_pages=*/{}).value();
  const auto decoder = CreatePlainDecoder();
  StepLoop loop(limits, *executor, *decoder, {.pipeline = true});
  const auto add = [&](RequestId id, int64_t tokens) {
    Request request;
    request.prompt.assign(30 + 17 * id, static_cast<int32_t>(id));
    request.max_tokens = tokens;
    request.sampling.temperature = id % 2 == 0 ? 0 : 1;
    request.sampling.top_p = 0.9;
    loop.Add(id, /*seed=*/id, std::move(request));
  };
  // The first tokens fed back find room for all that follow.
  add(1, 3);
  while (!loop.idle()) loop.Step();
  const int64_t before = DeviceAllocations();
  for (RequestId id = 2; id < 2 + kSequences; ++id) add(id, 20 + 10 * static_cast<int64_t>(id));
  while (!loop.idle()) loop.Step();
  EXPECT_EQ(DeviceAllocations(), before);
}

}  // namespace
}  // namespace rose
