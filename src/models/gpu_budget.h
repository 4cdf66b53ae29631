// What of a GPU's memory is for the KV cache, once all else of a server is there.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace rose {

struct GpuMemory {       // bytes
  int64_t used = 0;      // by weights, activations and CUDA itself
  int64_t free = 0;      // on the device
  int64_t allowed = 0;   // --gpu-memory: for the process in all; 0 = what is free
  int64_t kv_asked = 0;  // --kv-memory; 0 = all that is left
};

// Bytes of the KV cache: what was asked, or all that is left but 1 GiB, which graphs and kernels
// that are loaded late may take. kUnavailable says what was asked, what is there, and what to
// change. That the device has room for what was asked is seen when it is taken.
Result<int64_t> GpuKvBytes(const GpuMemory& memory);

}  // namespace rose
