// Faults of the device on demand, for tests of what happens then.
#pragma once

#include <cuda_runtime_api.h>

namespace rose {

// Enqueues a kernel that writes where nobody has memory. Every later call of this process that
// waits for the device fails.
void LaunchFault(cudaStream_t stream);

// Enqueues a kernel that never ends. What waits for it does so until the process ends.
void LaunchHang(cudaStream_t stream);

}  // namespace rose
