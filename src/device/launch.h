// The one way to launch a kernel: parameters are one struct, and a refused launch throws at once,
// with the kernel's name.
#pragma once

#include <cuda_runtime.h>

#include <string_view>

#include "device/cuda_check.h"

namespace rose {

struct LaunchShape {
  dim3 grid;              // CTAs, none of them zero
  dim3 block;             // threads of a CTA
  size_t smem_bytes = 0;  // dynamic shared memory of a CTA
};

// Enqueues `kernel` on `stream`; returns before it has run. An error inside the kernel shows up at
// a later call that waits.
template <typename Params>
void Launch(std::string_view name, void (*kernel)(Params), const LaunchShape& shape,
            cudaStream_t stream, const Params& params) {
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.smem_bytes;
  config.stream = stream;
  CudaCheck(cudaLaunchKernelEx(&config, kernel, params), name);
}

}  // namespace rose
