// Matrix products and fragment loads of one warp, and what decoding weights in registers needs.
#pragma once

#include <cstdint>

namespace rose::ptx {

// The 32-bit address of `p` in shared memory.
__device__ inline uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// c [16, 8] += a [16, 16] . b [16, 8], bf16 times bf16 in f32. Lane l holds of a: rows l/4 and
// l/4 + 8, columns 2 (l%4) + {0, 1} and 8 more, as (row, col), (row + 8, col), (row, col + 8),
// (row + 8, col + 8); of b: rows 2 (l%4) + {0, 1} and 8 more of column l/4; of c: row l/4, columns
// 2 (l%4) + {0, 1}, then row l/4 + 8. PTX ISA, mma.m16n8k16.
__device__ inline void MmaBf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
      "{%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four 8 x 8 matrices of 16-bit elements: lane l gives the address of row l%8 of matrix l/8, and
// gets of each matrix row l/4, elements 2 (l%4) + {0, 1}. PTX ISA, ldmatrix.
__device__ inline uint4 LoadMatrix4(uint32_t row) {
  uint4 v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(row));
  return v;
}

__device__ inline uint4 LoadShared16(uint32_t address) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address));
  return v;
}

__device__ inline uint32_t LoadShared4(uint32_t address) {
  uint32_t v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(address));
  return v;
}

// Byte i of the result is byte (selector >> 4i) & 7 of b:a. NOTE: the intrinsic masks its selector
// with one more instruction, on the half-rate pipe that bounds decoding. PTX ISA, prmt.
__device__ inline uint32_t Permute(uint32_t a, uint32_t b, uint32_t selector) {
  uint32_t r;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(selector));
  return r;
}

// (a & b) | c in one instruction. PTX ISA, lop3.
__device__ inline uint32_t AndOr(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t r;
  asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
}

// Two bf16 products, subnormals kept. PTX ISA, mul.bf16x2.
__device__ inline uint32_t MulBf16x2(uint32_t a, uint32_t b) {
  uint32_t r;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}

// Waits until `threads` threads have come to barrier `id` (1..15).
__device__ inline void NamedBarrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace rose::ptx
