// Weights made up on the device are those of the host, byte for byte.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "device/cuda_check.h"
#include "device/memory.h"
#include "kernels/random/random.h"
#include "ops/cuda/cuda_ops.h"

namespace rose {
namespace {

constexpr int64_t kGuard = 64;
constexpr uint8_t kFill = 0xa5;

// `bytes` that launch(device pointer) made, with the guard bytes behind them checked.
template <typename Launch>
std::vector<uint8_t> OnDevice(int64_t bytes, Launch launch) {
  const DeviceMemory memory = AllocateDevice(bytes + kGuard, "a test", "").value();
  CudaCheck(cudaMemset(memory.get(), kFill, bytes + kGuard), "filling");
  launch(memory.get());
  std::vector<uint8_t> out(bytes + kGuard);
  CudaCheck(cudaMemcpy(out.data(), memory.get(), out.size(), cudaMemcpyDeviceToHost), "reading");
  for (int64_t i = bytes; i < bytes + kGuard; ++i) EXPECT_EQ(out[i], kFill) << i - bytes;
  out.resize(bytes);
  return out;
}

void ExpectSame(const std::vector<uint8_t>& made, const std::vector<uint8_t>& wanted,
                const std::string& what) {
  ASSERT_EQ(made.size(), wanted.size());
  for (size_t i = 0; i < made.size(); ++i)
    ASSERT_EQ(int{made[i]}, int{wanted[i]}) << what << " at byte " << i << " of " << made.size();
}

TEST(RandomWeightsOnDevice, AreTheHostsBytes) {
  if (!IsCudaThere()) GTEST_SKIP() << "no GPU";
  const std::vector<int64_t> shapes[] = {{1, 32},       {1, 64},    {2, 7, 96},
                                         {3, 129, 160}, {257, 320}, {1031, 2880}};
  for (const WeightFormat& format : {kBf16Format, kMxfp4Format, kFp8BlockFormat}) {
    for (const std::vector<int64_t>& shape : shapes) {
      const RandomRecipe recipe =
          MakeRandomRecipe(format, shape, RandomKey(11, ShapeToString(shape)), 0, 0.02);
      const Weight layout = LayOut(recipe);
      int64_t numbers = 1;
      for (int64_t size : shape) numbers *= size;
      const std::string what = format.ToString() + " " + ShapeToString(shape);
      std::vector<uint8_t> wanted(layout.data.bytes());
      FillRandomData(recipe, 0, numbers, wanted.data());
      ExpectSame(OnDevice(layout.data.bytes(),
                          [&](void* out) {
                            LaunchRandomData({recipe.tables, format.packing, out, numbers},
                                             nullptr);
                          }),
                 wanted, what);
      if (layout.scales.empty()) continue;
      const int64_t scales = layout.scales.elements();
      std::vector<uint8_t> wanted_scales(layout.scales.bytes());
      FillRandomScales(recipe, 0, scales, wanted_scales.data());
      ExpectSame(OnDevice(layout.scales.bytes(),
                          [&](void* out) {
                            LaunchRandomScales({recipe.tables, format.packing, out, scales},
                                               nullptr);
                          }),
                 wanted_scales, what + " scales");
    }
  }
}

TEST(RandomWeightsOnDevice, TakesAnyCountOfNumbers) {
  if (!IsCudaThere()) GTEST_SKIP() << "no GPU";
  for (int64_t numbers : {0, 1, 2, 7, 8, 9, 97, 201088}) {
    const RandomRecipe recipe = MakeRandomRecipe(kBf16Format, {numbers}, 5, 1, 0.2);
    std::vector<uint8_t> wanted(2 * numbers);
    FillRandomData(recipe, 0, numbers, wanted.data());
    ExpectSame(OnDevice(2 * numbers,
                        [&](void* out) {
                          LaunchRandomData({recipe.tables, Packing::kBf16, out, numbers}, nullptr);
                        }),
               wanted, std::to_string(numbers));
  }
}

}  // namespace
}  // namespace rose
