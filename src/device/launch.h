// The one way to launch a kernel: parameters are one struct, and a refused launch throws at once,
// with the kernel's name.
//
// Programmatic dependent launch (LaunchShape::dependent): a kernel may start as soon as every CTA
// of the one ahead has called ptx::DependencyLaunch or ended, and ptx::DependencyWait returns when
// the one ahead has ended and what it wrote can be seen. Three rules make that as safe as plain
// launches:
//   1. Of every dependent kernel at least one thread waits, and every thread that touches what
//      kernels write waits, or gets it from one that has. So no kernel ends before the one ahead
//      has, and by induction, behind a wait all earlier kernels of the stream have ended: not the
//      one ahead alone, which matters for memory that is used again.
//   2. Before its wait a kernel writes no global memory, and reads only what no kernel writes that
//      may still run: weights, and what copies brought (copies wait for all kernels, and kernels
//      for them). When the kernel ahead calls DependencyLaunch does not matter then; early is best.
//   3. Exceptions from 2. Before its wait a kernel may also read
//      what was written before a kernel ahead of it that was launched plainly (attention does so
//      with its plan), and
//      what was written before one ahead that calls DependencyLaunch only behind its own wait.
// A kernel that is launched plainly begins when all ahead have ended and what they wrote can be
// seen. NOTE: behind a kernel that calls DependencyLaunch nowhere a dependent one begins when its
// CTAs have ended too, but what they wrote may not have arrived: attention was seen to read the
// plan of the step before.
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
  // The kernel may start before the one ahead of it in the stream has ended; see above.
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
