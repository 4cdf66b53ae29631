// A failed CUDA call cannot be repaired in this process (the error is sticky), so it is treated as
// a bug: it throws CheckFailure with the place, the call's meaning, CUDA's own words, and the op
// that it belongs to (op_trail.h).
#pragma once

#include <cuda_runtime_api.h>

#include <source_location>
#include <string_view>

namespace rose {

// Throws if `error` is one. `what` says what was tried: "launching smxx_f32_add_rmsnorm".
void CudaCheck(cudaError_t error, std::string_view what,
               std::source_location where = std::source_location::current());

// GPUs that this process can use; 0 without a driver or a GPU, which is not an error.
int CudaDevices();

}  // namespace rose
