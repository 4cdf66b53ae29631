// Decoding of packed experts (PackedExperts) to bf16 MMA fragments in registers, for the kernels of
// this folder. All decode to the same values: the numbers with their mxfp4 scales, exactly; for
// fp8-block the numbers without their scales, which go on a chain's sum.
#pragma once

#include <cstdint>

#include "kernels/common/ptx/mma_sync.cuh"
#include "tensor/weight.h"

namespace rose {

// Columns of a chain of MMAs from zero, and of what is summed before other chains come in.
inline constexpr int kChunkUnits = 8;

// A unit of 16 rows x 64 columns: Load takes a lane's part to registers, Fragment gives the k16
// steps 2 half and 2 half + 1.
template <Packing>
struct ExpertUnit;

template <>
struct ExpertUnit<Packing::kMxfp4> {
  static constexpr int kBytes = 544;
  static constexpr bool kIsDecoded = true;
  static constexpr bool kChainScales = false;
  uint4 codes;
  uint32_t scales;  // exponents of rows lane/4 (lower 32 columns, upper), lane/4 + 8 (idem)

  __device__ void Load(uint32_t unit, int lane) {
    codes = ptx::LoadShared16(unit + lane * 16);
    scales = ptx::LoadShared4(unit + 512 + lane / 4 * 4);
  }
  // Eight codes to four pairs, each 2^-126 too small. Of each 16 bits: pair 0 has its sign at bit
  // 15 and its code at 8:6; pair 1 at 12 and 5:3; pair 2 at 9 and 2:0; pair 3 at 10 and 14, 13, 11.
  static __device__ void Expand(uint32_t word, uint32_t (&a)[4]) {
    const uint32_t shifted = word >> 6;
    a[0] = word & 0x81C081C0;
    a[1] = (word * 8) & 0x81C081C0;
    a[2] = (word * 64) & 0x81C081C0;
    a[3] = ptx::AndOr(word * 32, 0x80008000,
                      ptx::AndOr(shifted * 2, 0x00400040, shifted & 0x01800180));
  }
  __device__ void Fragment(int half, uint32_t (&first)[4], uint32_t (&second)[4]) const {
    Expand(half == 0 ? codes.x : codes.z, first);
    Expand(half == 0 ? codes.y : codes.w, second);
    // The exponent's byte into both halves, then to bits 14:7.
    const uint32_t upper = ptx::Permute(scales, 0, 0x4040 + half * 0x101) << 7;
    const uint32_t lower = ptx::Permute(scales, 0, 0x4242 + half * 0x101) << 7;
    for (int part = 0; part < 4; ++part) {
      first[part] = ptx::MulBf16x2(first[part], part % 2 == 0 ? upper : lower);
      second[part] = ptx::MulBf16x2(second[part], part % 2 == 0 ? upper : lower);
    }
  }
};

template <>
struct ExpertUnit<Packing::kBf16> {
  static constexpr int kBytes = 2048;
  static constexpr bool kIsDecoded = false;  // fragments are what Load brings
  static constexpr bool kChainScales = false;
  uint4 steps[4];

  __device__ void Load(uint32_t unit, int lane) {
#pragma unroll
    for (int step = 0; step < 4; ++step)
      steps[step] = ptx::LoadShared16(unit + step * 512 + lane * 16);
  }
  __device__ void Fragment(int half, uint32_t (&first)[4], uint32_t (&second)[4]) const {
    const uint4 a = steps[2 * half], b = steps[2 * half + 1];
    first[0] = a.x, first[1] = a.y, first[2] = a.z, first[3] = a.w;
    second[0] = b.x, second[1] = b.y, second[2] = b.z, second[3] = b.w;
  }
};

template <>
struct ExpertUnit<Packing::kFp8Block> {
  static constexpr int kBytes = 1040;
  static constexpr bool kIsDecoded = true;
  static constexpr bool kChainScales = true;
  uint4 steps[2];
  float scales[2];  // of rows lane/4 and lane/4 + 8; the same for both units of 128 columns

  __device__ void Load(uint32_t unit, int lane) {
    steps[0] = ptx::LoadShared16(unit + lane * 16);
    steps[1] = ptx::LoadShared16(unit + 512 + lane * 16);
    scales[0] = __uint_as_float(ptx::LoadShared4(unit + 1024));
    scales[1] = __uint_as_float(ptx::LoadShared4(unit + 1028));
  }
  // Bytes 3 and 1 of `word` to a pair. The exponent's bias differs by 2^120; subnormals fit too.
  static __device__ uint32_t Expand(uint32_t word) {
    return ptx::MulBf16x2(ptx::AndOr(word, 0x80008000, (word >> 4) & 0x07F007F0), 0x7B807B80);
  }
  __device__ void Fragment(int half, uint32_t (&first)[4], uint32_t (&second)[4]) const {
    const uint4 v = steps[half];
    first[0] = Expand(v.x), first[1] = Expand(v.x << 8);
    first[2] = Expand(v.y), first[3] = Expand(v.y << 8);
    second[0] = Expand(v.z), second[1] = Expand(v.z << 8);
    second[2] = Expand(v.w), second[3] = Expand(v.w << 8);
  }
};

}  // namespace rose
