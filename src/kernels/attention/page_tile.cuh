// What the attention kernels need beside kernels/common/ptx: asynchronous copies of 16 bytes,
// transposed matrix loads, and where a tile's elements lie in shared memory.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/common/ptx/mma_sync.cuh"
#include "tensor/dtype.h"

namespace rose {

// Copies 16 bytes to shared memory behind the thread's back; writes zeros, reading nothing, where
// `is_there` is false.
__device__ inline void CopyAsync(uint32_t to, const void* from, bool is_there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(is_there ? 16 : 0)
               : "memory");
}
__device__ inline void CommitCopies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Until at most `kGroups` of the thread's committed groups are under way.
template <int kGroups>
__device__ void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

// Arrives at `barrier` when the thread's copies so far are there.
__device__ inline void ArriveWhenCopied(uint64_t* barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(ptx::SharedAddress(barrier))
               : "memory");
}
// Arrives `count` times.
__device__ inline void ArriveForAll(uint64_t* barrier, uint32_t count) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(ptx::SharedAddress(barrier)),
               "r"(count)
               : "memory");
}

// Whether the phase of this parity has ended.
__device__ inline bool BarrierIsDone(uint64_t* barrier, uint32_t parity) {
  uint32_t is_done;
  asm volatile(
      "{.reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
      : "=r"(is_done)
      : "r"(ptx::SharedAddress(barrier)), "r"(parity)
      : "memory");
  return is_done;
}

// As ptx::LoadMatrix4, each matrix transposed: elements 2 (l % 4) and the next of column l / 4.
__device__ inline void LoadTransposed(uint32_t (&m)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address)
               : "memory");
}

// Two floats as bf16, to nearest even; `low` in the lower half.
__device__ inline uint32_t PackBf16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

__device__ inline float Widen(Bf16 x) {
  return __uint_as_float(uint32_t{x.bits} << 16);
}

// Where 16-byte chunk `chunk` of row `row` of a tile lies, in bytes, so that eight rows' chunks of
// one number lie in different banks. Rows of 64 or 128 bf16.
template <int kDim>
__device__ uint32_t TileByte(int row, int chunk) {
  static_assert(kDim == 64 || kDim == 128, "a row is one or two lines of 128 bytes");
  return row * (kDim * 2) + ((chunk ^ (row & 7)) * 16);
}

}  // namespace rose
