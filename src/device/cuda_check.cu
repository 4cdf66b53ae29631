#include "base/check.h"
#include "device/cuda_check.h"
#include "device/op_trail.h"

namespace rose {

void CudaCheck(cudaError_t error, std::string_view what, std::source_location where) {
  if (error == cudaSuccess) return;
  FailCheck(where.file_name(), static_cast<int>(where.line()), "CUDA call succeeded",
            StrCat(what, ": ", cudaGetErrorName(error), ", ", cudaGetErrorString(error),
                   DescribeOps(error)));
}

int CudaDevices() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess) return devices;
  (void)cudaGetLastError();  // forget it: a later launch must not report it as its own
  return 0;
}

}  // namespace rose
