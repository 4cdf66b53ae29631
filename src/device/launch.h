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
  unsigned cluster = 1;   // CTAs of a cluster, along x
  // Programmatic dependent launch: the kernel may start before the one ahead of it in the stream
  // has ended. Only for kernels that wait (griddepcontrol.wait) before they touch what others
  // wrote.
  bool dependent = false;
};

// Lets `kernel` use more than the 48 KB of dynamic shared memory that every kernel may. To be
// called before the launch; cheap enough to be called before each.
template <typename Params>
void AllowSharedMemory(std::string_view name, void (*kernel)(Params), size_t bytes) {
  CudaCheck(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(bytes)),
            name);
}

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
  cudaLaunchAttribute attributes[2];
  config.attrs = attributes;
  if (shape.cluster > 1) {
    cudaLaunchAttribute& cluster = attributes[config.numAttrs++];
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {shape.cluster, 1, 1};
  }
  if (shape.dependent) {
    cudaLaunchAttribute& dependent = attributes[config.numAttrs++];
    dependent.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    dependent.val.programmaticStreamSerializationAllowed = 1;
  }
  CudaCheck(cudaLaunchKernelEx(&config, kernel, params), name);
}

}  // namespace rose
