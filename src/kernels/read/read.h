// A kernel that only reads: what measurements compare kernels with that have to.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace rose {

struct ReadParams {
  const std::byte* data = nullptr;  // aligned to 16 bytes
  int64_t bytes = 0;                // a multiple of 16
  std::byte* sink = nullptr;        // 16 bytes that may change
};

// Loads all of `data` once.
void LaunchRead(const ReadParams& params, cudaStream_t stream);

}  // namespace rose
