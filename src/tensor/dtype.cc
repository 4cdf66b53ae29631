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

std::optional<DType> DTypeFromName(std::string_view name) {
  for (const DType dtype :
       {DType::kF32, DType::kBf16, DType::kU8, DType::kE4m3, DType::kI32, DType::kI64}) {
    if (DTypeName(dtype) == name) return dtype;
  }
  return std::nullopt;
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
  const uint32_t u = std::bit_cast<uint32_t>(x);
  const uint8_t sign = (u >> 24) & 0x80;
  const float magnitude = std::bit_cast<float>(u & 0x7fffffffu);
  if (std::isnan(x)) return {static_cast<uint8_t>(sign | 0x7f)};
  if (magnitude >= 448.0f) return {static_cast<uint8_t>(sign | 0x7e)};
  // Below the smallest normal 2^-6 the step is 2^-9; eight steps are the code of 2^-6 itself.
  if (magnitude < 0x1p-6f) {
    return {static_cast<uint8_t>(sign | std::lrint(magnitude * 512.0f))};
  }
  // Keep three bits of the mantissa, ties to even; a carry runs into the exponent as it should.
  const uint32_t rounded = (u & 0x7fffffffu) + 0x7ffffu + ((u >> 20) & 1u);
  return {static_cast<uint8_t>(sign | ((rounded >> 20) - ((127 - 7) << 3)))};
}

float E8m0ToFloat(uint8_t byte) {
  if (byte == 255) return std::numeric_limits<float>::quiet_NaN();
  if (byte == 0) return 0x1p-127f;  // a subnormal
  return std::bit_cast<float>(uint32_t{byte} << 23);
}

}  // namespace rose
