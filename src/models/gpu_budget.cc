#include "models/gpu_budget.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

namespace rose {
namespace {

constexpr int64_t kReserve = int64_t{1} << 30;

std::string Gigabytes(int64_t bytes) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.2f GB", static_cast<double>(bytes) / 1e9);
  return text.data();
}

}  // namespace

Result<int64_t> GpuKvBytes(const GpuMemory& memory) {
  if (memory.allowed == 0 && memory.kv_asked > 0) return memory.kv_asked;
  const bool is_bounded = memory.allowed > 0 && memory.allowed - memory.used < memory.free;
  const int64_t left = (is_bounded ? memory.allowed - memory.used : memory.free) - kReserve;
  if (memory.kv_asked > 0 && (memory.kv_asked <= left || !is_bounded)) return memory.kv_asked;
  if (memory.kv_asked == 0 && left > 0) return left;
  return Unavailable(
      "weights, activations and CUDA itself take ", Gigabytes(memory.used),
      " of the GPU's memory, and ", Gigabytes(kReserve), " stay free: of ",
      is_bounded ? StrCat(Gigabytes(memory.allowed), " that --gpu-memory allows, ")
                 : StrCat(Gigabytes(memory.free), " that are free now, "),
      left > 0 ? Gigabytes(left) : "nothing", " is left for the KV cache",
      memory.kv_asked > 0 ? StrCat(", and --kv-memory asks for ", Gigabytes(memory.kv_asked)) : "",
      "; ",
      is_bounded ? "start servers that share a GPU one after the other, raise --gpu-memory"
                 : "end other programs on the GPU",
      memory.kv_asked > 0 && left > 0 ? ", or lower --kv-memory"
                                      : ", or lower --max-step-tokens or --max-running");
}

}  // namespace rose
