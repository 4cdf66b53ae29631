// Numbers out of unaligned bytes, for the kernels of every level.
#pragma once

#include <cstdint>
#include <cstring>

#include "tensor/dtype.h"

namespace rose {

// Element `i` of a BF16 array.
inline float Bf16At(const uint8_t* data, int64_t i) {
  Bf16 value;
  std::memcpy(&value, data + 2 * i, sizeof(value));
  return ToFloat(value);
}

// 2^(byte - 127) for every byte; 2^-127 is subnormal, and 255 (refused when loading) is NaN.
struct E8m0Table {
  constexpr E8m0Table() {
    for (uint32_t byte = 1; byte < 255; ++byte) values[byte] = std::bit_cast<float>(byte << 23);
    values[0] = std::bit_cast<float>(0x00400000u);
    values[255] = std::bit_cast<float>(0x7fc00000u);
  }
  float values[256] = {};
};
inline constexpr E8m0Table kE8m0;

}  // namespace rose
