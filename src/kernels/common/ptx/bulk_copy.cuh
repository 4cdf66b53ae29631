// mbarriers, bulk copies from global to shared memory that complete on one, copies of 16 bytes a
// thread, and what goes with warps that only copy.
#pragma once

#include <cstdint>

#include "kernels/common/ptx/mma_sync.cuh"

namespace rose::ptx {

// One thread initialises; BarriersReady, then a CTA barrier, before anybody else uses them.
__device__ inline void BarrierInit(uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SharedAddress(barrier)),
               "r"(arrivals));
}
__device__ inline void BarriersReady() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Arrives, and makes the phase wait for `bytes` of bulk copies besides.
__device__ inline void BarrierExpect(uint64_t* barrier, uint32_t bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SharedAddress(barrier)),
      "r"(bytes)
      : "memory");
}
// The same without arriving.
__device__ inline void BarrierExpectOnly(uint64_t* barrier, uint32_t bytes) {
  asm volatile(
      "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(SharedAddress(barrier)),
      "r"(bytes)
      : "memory");
}
__device__ inline void BarrierArrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SharedAddress(barrier)) : "memory");
}
// Waits for the end of the phase of this parity (0 for the first).
__device__ inline void BarrierWait(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{.reg .pred p;\n"
      "L%=: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@!p bra L%=;\n}" ::"r"(SharedAddress(barrier)),
      "r"(parity)
      : "memory");
}

// `bytes` (a multiple of 16) from global `source` to shared `target`, both aligned to 16 bytes.
// PTX ISA, cp.async.bulk.
__device__ inline void BulkCopy(void* target, const void* source, uint32_t bytes,
                                uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(SharedAddress(target)),
      "l"(source), "r"(bytes), "r"(SharedAddress(barrier))
      : "memory");
}

// 16 bytes from global `source` to shared `target`, or zeros where `is_inside` is false. The copies
// of a thread since its last commit form a group. PTX ISA, cp.async.
__device__ inline void CopyAsync16(uint32_t target, const void* source, bool is_inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(source),
               "r"(is_inside ? 16 : 0)
               : "memory");
}
__device__ inline void CopyAsyncCommit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits until at most `kPending` groups of this thread are unfinished.
template <int kPending>
__device__ inline void CopyAsyncWait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Programmatic dependent launch: what follows Wait sees all that earlier kernels of the stream
// wrote; after Launch, the next kernel may start. Nothing where a kernel was launched plainly.
__device__ inline void DependencyWait() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
__device__ inline void DependencyLaunch() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace rose::ptx
