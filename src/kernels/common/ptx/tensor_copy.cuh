// Bulk copies of boxes of a tensor (TMA), and what the CTAs of a cluster say to each other.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/common/ptx/mma_sync.cuh"

namespace rose::ptx {

// The map's box at (column, row) to shared memory; its bytes count for `barrier`. What lies outside
// of the tensor is filled with zeros and counts too. PTX ISA, cp.async.bulk.tensor.
__device__ inline void CopyBox(void* target, const CUtensorMap& map, int column, int row,
                               uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%3}], [%4];" ::"r"(SharedAddress(target)),
      "l"(&map), "r"(column), "r"(row), "r"(SharedAddress(barrier))
      : "memory");
}

// The same of a tensor with three axes.
__device__ inline void CopyBox(void* target, const CUtensorMap& map, int column, int row, int block,
                               uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%3, %4}], [%5];" ::"r"(SharedAddress(target)),
      "l"(&map), "r"(column), "r"(row), "r"(block), "r"(SharedAddress(barrier))
      : "memory");
}

// As CopyBox of a matrix, to the same place in every CTA of the cluster that has its bit in `ctas`;
// the bytes count for the barrier at the same place there.
__device__ inline void CopyBoxToAll(void* target, const CUtensorMap& map, int column, int row,
                                    uint64_t* barrier, uint16_t ctas) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::"
      "cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(SharedAddress(target)),
      "l"(&map), "r"(column), "r"(row), "r"(SharedAddress(barrier)), "h"(ctas)
      : "memory");
}

__device__ inline void PrefetchMap(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

__device__ inline uint32_t ClusterRank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// All threads of all CTAs of the cluster meet.
__device__ inline void ClusterSync() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// Writes `value` to the place of `p` in the shared memory of CTA `rank` of the cluster, for its
// threads to read behind ClusterSync. The CTA must have begun: it does behind a ClusterSync, too.
__device__ inline void StoreAt(float* p, uint32_t rank, float value) {
  asm volatile(
      "{.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
      "st.shared::cluster.f32 [there], %2;\n}" ::"r"(SharedAddress(p)),
      "r"(rank), "f"(value)
      : "memory");
}

// Copies `value` to the place of `p` in the shared memory of CTA `rank` of the cluster; its bytes
// count for the barrier at the place of `barrier` there. PTX ISA, st.async.
__device__ inline void StoreAtAsync(float4* p, uint32_t rank, float4 value, uint64_t* barrier) {
  asm volatile(
      "{.reg .b32 there, full;\nmapa.shared::cluster.u32 there, %0, %2;\n"
      "mapa.shared::cluster.u32 full, %1, %2;\n"
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [there], {%3, %4, %5, "
      "%6}, [full];\n}" ::"r"(SharedAddress(p)),
      "r"(SharedAddress(barrier)), "r"(rank), "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w)
      : "memory");
}

// Arrives at the barrier at the same place in CTA `rank` of the cluster. Says that this thread is
// done with shared memory, not that others may see what it wrote: a release at the scope of the
// cluster would wait for its stores to global memory.
__device__ inline void BarrierArriveAt(uint64_t* barrier, uint32_t rank) {
  asm volatile(
      "{.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(SharedAddress(barrier)),
      "r"(rank)
      : "memory");
}

}  // namespace rose::ptx
