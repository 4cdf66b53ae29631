// Owned memory of the device, and page-locked memory of the host that a device copies from and to
// without a detour.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "base/out_of_memory.h"
#include "base/status.h"

namespace rose {

struct FreeDevice {
  void operator()(std::byte* p) const { (void)cudaFree(p); }
};
struct FreePinned {
  void operator()(std::byte* p) const { (void)cudaFreeHost(p); }
};
using DeviceMemory = std::unique_ptr<std::byte, FreeDevice>;
struct FreeLargePinned {
  void operator()(std::byte* p) const {
    (void)cudaHostUnregister(p);
    std::free(p);
  }
};
using LargePinnedMemory = std::unique_ptr<std::byte, FreeLargePinned>;
using PinnedMemory = std::unique_ptr<std::byte, FreePinned>;

// `bytes` (0 gives one byte) of device memory, uninitialised. kUnavailable says what was asked for
// `what`, what is free, and `advice`: which option to change.
Result<DeviceMemory> AllocateDevice(int64_t bytes, std::string_view what, std::string_view advice);

// The same, page-locked on the host; zero-filled.
Result<PinnedMemory> AllocatePinned(int64_t bytes, std::string_view what, std::string_view advice);

// The same for large blocks: huge pages, where the system has them, are locked ten times as fast.
Result<LargePinnedMemory> AllocateLargePinned(int64_t bytes, std::string_view what,
                                              std::string_view advice);

// How often this process has called the first two so far: a step that grows nothing leaves it as
// it is.
int64_t DeviceAllocations();

// The memory, or OutOfMemory is thrown: for what a step needs.
template <typename Memory>
Memory ValueOrThrow(Result<Memory> memory) {
  if (!memory.ok()) throw OutOfMemory(memory.status().message());
  return std::move(memory).value();
}

}  // namespace rose
