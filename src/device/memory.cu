#include <algorithm>
#include <cstring>

#include "device/cuda_check.h"
#include "device/memory.h"

namespace rose {
namespace {

double Gigabytes(size_t bytes) {
  return static_cast<double>(bytes / 10'000'000) / 100;
}

}  // namespace

Result<DeviceMemory> AllocateDevice(int64_t bytes, std::string_view what, std::string_view advice) {
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, static_cast<size_t>(std::max<int64_t>(1, bytes)));
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();  // it is reported here, and not again by the next launch
    size_t free = 0, total = 0;
    CudaCheck(cudaMemGetInfo(&free, &total), "asking for free memory");
    return Unavailable("the GPU has no room for ", what, ": ", Gigabytes(bytes), " GB asked, ",
                       Gigabytes(free), " GB of ", Gigabytes(total), " GB free; ", advice);
  }
  CudaCheck(error, "allocating device memory");
  return DeviceMemory(static_cast<std::byte*>(data));
}

Result<PinnedMemory> AllocatePinned(int64_t bytes, std::string_view what, std::string_view advice) {
  void* data = nullptr;
  const size_t size = static_cast<size_t>(std::max<int64_t>(1, bytes));
  const cudaError_t error = cudaHostAlloc(&data, size, cudaHostAllocDefault);
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    return Unavailable("no page-locked memory of the host for ", what, ": ", Gigabytes(bytes),
                       " GB asked; ", advice);
  }
  CudaCheck(error, "allocating page-locked memory");
  std::memset(data, 0, size);
  return PinnedMemory(static_cast<std::byte*>(data));
}

}  // namespace rose
