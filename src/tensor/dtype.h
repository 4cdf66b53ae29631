// Element types, and conversions between them. Storage types are plain bytes of our own; no CUDA
// header is needed to name them.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

namespace rose {

enum class DType { kF32, kBf16, kU8, kE4m3, kI32, kI64 };

int64_t ElementBytes(DType dtype);
std::string_view DTypeName(DType dtype);  // as safetensors spells it: "F32", "BF16", "F8_E4M3", ...
std::optional<DType> DTypeFromName(std::string_view name);  // the inverse

// bfloat16: the upper half of a float.
struct Bf16 {
  uint16_t bits = 0;
  bool operator==(const Bf16&) const = default;
};

inline float ToFloat(Bf16 x) {
  return std::bit_cast<float>(uint32_t{x.bits} << 16);
}

// Rounds to nearest, ties to even; a NaN stays a (quiet) NaN.
inline Bf16 ToBf16(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((u >> 16) | 0x40u)};
  return {static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

// E4M3 ("FN": no infinities, 0x7f and 0xff are NaN, largest 448). OCP 8-bit floating point.
struct E4m3 {
  uint8_t bits = 0;
  bool operator==(const E4m3&) const = default;
};

float ToFloat(E4m3 x);
// Rounds to nearest, ties to even; saturates at +-448; NaN stays NaN.
E4m3 ToE4m3(float x);

// E2M1 value of a nibble (0..15), bit 3 the sign. OCP Microscaling formats, section 5.3.3.
inline constexpr float kE2m1[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                    -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

// E8M0 scale: 2^(byte - 127); 255 is NaN and is refused when a checkpoint is loaded.
float E8m0ToFloat(uint8_t byte);

}  // namespace rose
