// What measurements are held against: the time that bytes and products take at least, and the
// clocks at which the device ran.
#include <algorithm>
#include <cstdio>

#include "bench/bench.h"

namespace rose {
namespace {

// What one H200 was measured to copy from its memory, and to multiply in bf16 (large products of a
// vendor's library), whatever the nominal rates are.
constexpr double kCudaBytesPerS = 4.3e12;
constexpr double kCudaFlopsPerS = 780e12;

bool IsOnGpu(const LoadedModel& loaded) {
  return loaded.ops->name() == "cuda";
}

}  // namespace

double FloorSeconds(const LoadedModel& loaded, const std::vector<StepWork>& steps) {
  if (!IsOnGpu(loaded)) return 0;
  double seconds = 0;
  for (const StepWork& step : steps)
    seconds += std::max(step.bytes / kCudaBytesPerS, step.flops / kCudaFlopsPerS);
  return seconds;
}

std::string WorkJson(const LoadedModel& loaded, const std::vector<StepWork>& steps,
                     double seconds) {
  double bytes = 0, flops = 0, experts = 0;
  for (const StepWork& step : steps) {
    bytes += step.bytes;
    flops += step.flops;
    experts = std::max(experts, step.experts);
  }
  char text[256];
  std::snprintf(text, sizeof(text),
                ", \"gb_per_s\": %.2f, \"tflop_per_s\": %.3f, \"experts_a_layer\": %.1f",
                bytes / seconds * 1e-9, flops / seconds * 1e-12, experts);
  std::string json = text;
  const double floor = FloorSeconds(loaded, steps);
  if (floor == 0) return json;
  std::snprintf(text, sizeof(text), ", \"floor_ms\": %.4f, \"share_of_floor\": %.3f", 1000 * floor,
                floor / seconds);
  return json + text;
}

std::string ClocksJson(const LoadedModel& loaded) {
  if (!IsOnGpu(loaded)) return "";
  std::FILE* pipe = ::popen(
      "nvidia-smi -i 0 --query-gpu=clocks.sm,clocks.mem --format=csv,noheader,nounits 2>/dev/null",
      "r");
  if (pipe == nullptr) return "";
  int sm = 0, memory = 0;
  const bool read = std::fscanf(pipe, "%d, %d", &sm, &memory) == 2;
  ::pclose(pipe);
  return read ? StrCat(", \"sm_mhz\": ", sm, ", \"memory_mhz\": ", memory) : "";
}

}  // namespace rose
