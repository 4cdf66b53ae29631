#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "device/cuda_check.h"
#include "device/memory.h"

namespace rose {
namespace {

double Gigabytes(size_t bytes) {
  return static_cast<double>(bytes / 10'000'000) / 100;
}

Status NoPinned(int64_t bytes, std::string_view what, std::string_view advice) {
  return Unavailable("no page-locked memory of the host for ", what, ": ", Gigabytes(bytes),
                     " GB asked; ", advice);
}

// Memory that a step takes is a fault that no result shows; only a count of the process can.
std::atomic<int64_t> allocations = 0;

}  // namespace

int64_t DeviceAllocations() {
  return allocations;
}

Result<DeviceMemory> AllocateDevice(int64_t bytes, std::string_view what, std::string_view advice) {
  ++allocations;
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
  ++allocations;
  void* data = nullptr;
  const size_t size = static_cast<size_t>(std::max<int64_t>(1, bytes));
  const cudaError_t error = cudaHostAlloc(&data, size, cudaHostAllocDefault);
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    return NoPinned(bytes, what, advice);
  }
  CudaCheck(error, "allocating page-locked memory");
  std::memset(data, 0, size);
  return PinnedMemory(static_cast<std::byte*>(data));
}

Result<LargePinnedMemory> AllocateLargePinned(int64_t bytes, std::string_view what,
                                              std::string_view advice) {
  constexpr int64_t kPage = int64_t{2} << 20;
  const int64_t size = (std::max<int64_t>(1, bytes) + kPage - 1) / kPage * kPage;
  void* data = std::aligned_alloc(kPage, static_cast<size_t>(size));
  if (data == nullptr) return NoPinned(bytes, what, advice);
  (void)::madvise(data, static_cast<size_t>(size), MADV_HUGEPAGE);  // else the pages are small
  std::memset(data, 0, static_cast<size_t>(size));
  const cudaError_t error = cudaHostRegister(data, static_cast<size_t>(size), 0);
  if (error != cudaSuccess) std::free(data);
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    return NoPinned(bytes, what, advice);
  }
  CudaCheck(error, "page-locking memory");
  return LargePinnedMemory(static_cast<std::byte*>(data));
}

}  // namespace rose
