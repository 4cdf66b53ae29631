// The reference's inner product, and bf16 vectors as f32.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "tensor/weight.h"

namespace rose {

// Sum of a[i] * b[i], f32. Sixteen partial sums: nearer to the exact value than one running sum,
// and the compiler can turn them into vector registers.
inline float Dot(const float* a, const float* b, int64_t n) {
  float lanes[16] = {};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (int lane = 0; lane < 16; ++lane) lanes[lane] += a[i + lane] * b[i + lane];
  }
  for (; i < n; ++i) lanes[i % 16] += a[i] * b[i];
  for (int half = 8; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

// Element `i` of a BF16 vector weight (norm, bias, sinks), or of its [experts, n] form.
inline float VectorAt(const Weight& vector, int64_t i) {
  // memcpy: a mapped file does not promise alignment.
  Bf16 value;
  std::memcpy(&value, static_cast<const char*>(vector.data.raw()) + i * sizeof(Bf16), sizeof(Bf16));
  return ToFloat(value);
}

// The same, and 0 where there is no bias.
inline float BiasAt(const Weight& bias, int64_t i) {
  return bias.empty() ? 0.0f : VectorAt(bias, i);
}

}  // namespace rose
