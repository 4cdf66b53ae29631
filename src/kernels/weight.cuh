// Single elements of a WeightView, decoded exactly to f32. For kernels that are not about speed.
#pragma once

#include <cuda_fp8.h>

#include "device/bf16.cuh"
#include "kernels/weight.h"

namespace rose {

// 2^(byte - 127); 0 is the subnormal 2^-127.
__device__ inline float E8m0(uint8_t byte) {
  return __uint_as_float(byte == 0 ? 0x00400000u : uint32_t{byte} << 23);
}

// A nibble of MXFP4 (E2M1): sign, two bits of exponent, one of mantissa.
__device__ inline float E2m1(uint32_t nibble) {
  const uint32_t magnitude = nibble & 7;
  const float value = magnitude < 2
                          ? 0.5f * static_cast<float>(magnitude)
                          : __uint_as_float(((magnitude >> 1) + 126) << 23 | (magnitude & 1) << 22);
  return (nibble & 8) != 0 ? -value : value;
}

__device__ inline float E4m3ToFloat(uint8_t bits) {
  __nv_fp8_e4m3 value;
  value.__x = bits;
  return static_cast<float>(value);
}

// Element (row, col) of matrix `stack`.
template <Packing kPacking>
__device__ float ElementOf(const WeightView& w, int64_t stack, int64_t row, int64_t col) {
  const int64_t at = (stack * w.rows + row) * w.cols + col;
  if constexpr (kPacking == Packing::kBf16) {
    return Widen(static_cast<const uint16_t*>(w.data)[at]);
  } else if constexpr (kPacking == Packing::kMxfp4) {
    const uint8_t byte = static_cast<const uint8_t*>(w.data)[at / 2];
    const uint32_t nibble = (at & 1) != 0 ? byte >> 4 : byte & 15;
    return E2m1(nibble) * E8m0(static_cast<const uint8_t*>(w.scales)[at / 32]);
  } else {
    static_assert(kPacking == Packing::kFp8Block);
    const int64_t block_cols = (w.cols + 127) / 128;
    // WeightFormat::ScaleRows and ScaleRow.
    const int64_t rows = (w.rows / w.woven + w.block_rows - 1) / w.block_rows * w.woven;
    const int64_t scale_row = row / w.woven / w.block_rows * w.woven + row % w.woven;
    const int64_t block = (stack * rows + scale_row) * block_cols + col / 128;
    return E4m3ToFloat(static_cast<const uint8_t*>(w.data)[at]) *
           static_cast<const float*>(w.scales)[block];
  }
}

}  // namespace rose
