// Both loops are written once, with the compiler's vectors of eight, and compiled for each level of
// instructions. Every lane does the same single IEEE operations there, without contraction.
#include "engine/logit_sums.h"

#include <cstring>

#include "base/check.h"

namespace rose {
namespace {

constexpr int64_t kLanes = 8;
using Floats = float __attribute__((vector_size(kLanes * sizeof(float))));
using Doubles = double __attribute__((vector_size(kLanes * sizeof(double))));
using Words = uint64_t __attribute__((vector_size(kLanes * sizeof(uint64_t))));

#define ROSE_INLINE inline __attribute__((always_inline))
#define ROSE_AVX2 __attribute__((target("avx2")))
#define ROSE_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2")))

// Logits [begin, begin + count) -> out; lanes from `count` on are excluded.
ROSE_INLINE void Load(const float* begin, int64_t count, Floats& out) {
  if (count >= kLanes) {
    std::memcpy(&out, begin, sizeof(out));
    return;
  }
  out = Floats{} + kExcludedLogit;
  for (int64_t lane = 0; lane < count; ++lane) out[lane] = begin[lane];
}

ROSE_INLINE void LargestBody(std::span<const float> logits, float* out) {
  const int64_t size = std::ssize(logits);
  for (int64_t block = 0; block < size; block += kLogitBlock) {
    const int64_t end = std::min(size, block + kLogitBlock);
    Floats largest = Floats{} + kExcludedLogit;
    for (int64_t i = block; i < end; i += kLanes) {
      Floats x;
      Load(logits.data() + i, end - i, x);
      largest = x > largest ? x : largest;  // never a NaN
    }
    float of_block = kExcludedLogit;
    for (int64_t lane = 0; lane < kLanes; ++lane) of_block = std::max(of_block, largest[lane]);
    *out++ = SaneLogit(of_block);
  }
}

// e^x of -700 <= x <= 0 -> x. 2^(whole + f) with |f| <= 1/2: the series of 2^f up to the 11th power
// ends 7e-15 off.
ROSE_INLINE void Exponential(Doubles& x) {
  constexpr double kPowers[] = {
      4.4455382718708116e-10, 7.0549116208011234e-09, 1.01780860092397e-07,  1.321548679014431e-06,
      1.5252733804059841e-05, 0.00015403530393381609, 0.0013333558146428443, 0.0096181291076284769,
      0.055504108664821583,   0.24022650695910072,    0.69314718055994529,   1};  // ln(2)^n / n!
  constexpr double kLog2E = 1.4426950408889634;
  constexpr double kRound = 0x1.8p52;  // adding it leaves a whole number in the lowest bits
  const Doubles shifted = x * kLog2E + kRound;
  const Doubles f = x * kLog2E - (shifted - kRound);
  Doubles p = Doubles{} + kPowers[0];
#pragma GCC unroll 11
  for (int i = 1; i < 12; ++i) p = p * f + kPowers[i];
  const Words power = (reinterpret_cast<Words>(shifted) + 1023) << 52;
  x = p * reinterpret_cast<Doubles>(power);
}

ROSE_INLINE double SumBody(std::span<const float> logits, float largest) {
  const int64_t size = std::ssize(logits);
  const Floats excluded = Floats{} + kExcludedLogit;
  const Floats most = Floats{} + std::numeric_limits<float>::max();
  const Doubles least = Doubles{} - 700;
  Doubles sum{};
  for (int64_t i = 0; i < size; i += kLanes) {
    Floats x;
    Load(logits.data() + i, size - i, x);
    x = x > excluded ? x : excluded;  // a NaN too
    x = x < most ? x : most;
    Doubles term = __builtin_convertvector(x - largest, Doubles);
    term = term > least ? term : least;
    Exponential(term);
    sum += term;
  }
  return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

ROSE_AVX512 void LargestAvx512(std::span<const float> logits, float* out) {
  LargestBody(logits, out);
}
ROSE_AVX2 void LargestAvx2(std::span<const float> logits, float* out) {
  LargestBody(logits, out);
}
void LargestPlain(std::span<const float> logits, float* out) {
  LargestBody(logits, out);
}

ROSE_AVX512 double SumAvx512(std::span<const float> logits, float largest) {
  return SumBody(logits, largest);
}
ROSE_AVX2 double SumAvx2(std::span<const float> logits, float largest) {
  return SumBody(logits, largest);
}
double SumPlain(std::span<const float> logits, float largest) {
  return SumBody(logits, largest);
}

}  // namespace

void LargestOfBlocks(CpuIsa isa, std::span<const float> logits, std::vector<float>& out) {
  out.resize((std::ssize(logits) + kLogitBlock - 1) / kLogitBlock);
  switch (isa) {
    case CpuIsa::kAvx512:
      return LargestAvx512(logits, out.data());
    case CpuIsa::kAvx2:
      return LargestAvx2(logits, out.data());
    case CpuIsa::kScalar:
      return LargestPlain(logits, out.data());
  }
}

double SumOfExponentials(CpuIsa isa, std::span<const float> logits, float largest) {
  switch (isa) {
    case CpuIsa::kAvx512:
      return SumAvx512(logits, largest);
    case CpuIsa::kAvx2:
      return SumAvx2(logits, largest);
    case CpuIsa::kScalar:
      return SumPlain(logits, largest);
  }
  ROSE_CHECK(false, "isa ", static_cast<int>(isa));
}

}  // namespace rose
