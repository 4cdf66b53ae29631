#include "tensor/dtype.h"

#include <cmath>
#include <limits>

#include "base/check.h"

namespace rose {

int64_t ElementBytes(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBf16:
      return 2;
    case DType::kU8:
    case DType::kE4m3:
      return 1;
    case DType::kI64:
      return 8;
  }
  ROSE_CHECK(false, "dtype ", static_cast<int>(dtype));
}

std::string_view DTypeName(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kBf16:
      return "BF16";
    case DType::kU8:
      return "U8";
    case DType::kE4m3:
      return "F8_E4M3";
    case DType::kI32:
      return "I32";
    case DType::kI64:
      return "I64";
  }
  ROSE_CHECK(false, "dtype ", static_cast<int>(dtype));
}

float ToFloat(E4m3 x) {
  const int exponent = (x.bits >> 3) & 15;
  const int mantissa = x.bits & 7;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<float>::quiet_NaN();
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(mantissa), -9)
                              : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return (x.bits & 0x80) ? -magnitude : magnitude;
}

E4m3 ToE4m3(float x) {
  const uint8_t sign = std::signbit(x) ? 0x80 : 0;
  if (std::isnan(x)) return {static_cast<uint8_t>(sign | 0x7f)};
  const float magnitude = std::fabs(x);
  if (magnitude >= 448.0f) return {static_cast<uint8_t>(sign | 0x7e)};
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude = f * 2^exponent, 0.5 <= f < 1
  // One unit in the last place: 2^-9 for subnormals (below 2^-6), else 2^(exponent - 1 - 3).
  const int unit = magnitude < std::ldexp(1.0f, -6) ? -9 : exponent - 4;
  const float steps = std::nearbyint(std::ldexp(magnitude, -unit));
  const float rounded = std::ldexp(steps, unit);
  if (rounded < std::ldexp(1.0f, -6)) return {static_cast<uint8_t>(sign | static_cast<int>(steps))};
  std::frexp(rounded, &exponent);
  const int mantissa = static_cast<int>(std::ldexp(rounded, 4 - exponent)) - 8;
  return {static_cast<uint8_t>(sign | ((exponent - 1 + 7) << 3) | mantissa)};
}

float E8m0ToFloat(uint8_t byte) {
  if (byte == 255) return std::numeric_limits<float>::quiet_NaN();
  return std::ldexp(1.0f, byte - 127);
}

}  // namespace rose
