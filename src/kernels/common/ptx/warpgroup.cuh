// What stands around the warpgroup products of wgmma.cuh: fences, descriptors, registers.
#pragma once

#include <cstdint>

#include "kernels/common/ptx/mma_sync.cuh"

namespace rose::ptx {

// A tile in shared memory with rows of 128 bytes (64 bf16) and the 128-byte swizzle, as CopyBox
// writes it: 16-byte piece c of row r lies at piece c ^ (r % 8). The tile starts at a multiple of
// 1024. Add 2 to the descriptor for each 16 columns. PTX ISA, "matrix descriptor".
__device__ inline uint64_t TileDescriptor(const void* tile) {
  return (SharedAddress(tile) & 0x3ffff) >> 4 | uint64_t{1} << 16 | uint64_t{64} << 32 |
         uint64_t{1} << 62;
}

// Before the first product, and again after registers that products use were touched otherwise.
__device__ inline void ProductFence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// Closes a group of products.
__device__ inline void ProductCommit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most kPending groups are unfinished.
template <int kPending>
__device__ void ProductWait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// This thread's writes to shared memory become visible to bulk copies and warpgroup products.
__device__ inline void FenceAsync() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Registers a thread of this warpgroup may use, in kernels whose warpgroups differ.
template <int kCount>
__device__ void RegistersUp() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ void RegistersDown() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

}  // namespace rose::ptx
