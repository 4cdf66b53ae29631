#include <cstdint>

#include "device/fault.h"
#include "device/launch.h"

namespace rose {
namespace {

struct FaultParams {
  uint64_t address;
};

__global__ void __launch_bounds__(32) smxx_fault_kernel(const __grid_constant__ FaultParams p) {
  *reinterpret_cast<volatile int*>(p.address) = 1;
}

__global__ void __launch_bounds__(32) smxx_hang_kernel(const __grid_constant__ FaultParams p) {
  while (p.address != 0) __nanosleep(1000);  // so that SMs stay free for others
}

}  // namespace

void LaunchFault(cudaStream_t stream) {
  // Page zero, behind the null pointer, which a compiler may treat in its own way.
  Launch("smxx_fault", smxx_fault_kernel, {.grid = dim3(1), .block = dim3(1)}, stream,
         FaultParams{.address = 64});
}

void LaunchHang(cudaStream_t stream) {
  Launch("smxx_hang", smxx_hang_kernel, {.grid = dim3(1), .block = dim3(1)}, stream,
         FaultParams{.address = 64});
}

}  // namespace rose
