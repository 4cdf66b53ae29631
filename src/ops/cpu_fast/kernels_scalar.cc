// The loops of kernels.inc in plain C++, for any x86-64.
#include <cmath>

#include "ops/cpu_fast/bytes.h"
#include "ops/cpu_fast/kernels.h"

#define ROSE_TARGET
#define ROSE_INLINE __attribute__((always_inline)) inline

namespace rose {
namespace {

constexpr int kLanes = 4;
constexpr int kTileRows = 1;
constexpr int kTileTokens = 4;

struct Vec {
  float at[kLanes];
};

// Applies `f` lane by lane.
template <typename F>
ROSE_INLINE Vec Each(F f) {
  Vec out;
  for (int i = 0; i < kLanes; ++i) out.at[i] = f(i);
  return out;
}

ROSE_INLINE Vec Set1(float x) {
  return Each([&](int) { return x; });
}
ROSE_INLINE Vec Zero() {
  return Set1(0.0f);
}
ROSE_INLINE Vec Load(const float* p) {
  return Each([&](int i) { return p[i]; });
}
ROSE_INLINE Vec LoadPart(const float* p, int64_t n) {
  return Each([&](int i) { return i < n ? p[i] : 0.0f; });
}
ROSE_INLINE void StorePart(float* p, Vec a, int64_t n) {
  for (int i = 0; i < kLanes; ++i)
    if (i < n) p[i] = a.at[i];
}
ROSE_INLINE void Store(float* p, Vec a) {
  StorePart(p, a, kLanes);
}
ROSE_INLINE Vec LoadBf16(const uint8_t* p) {
  return Each([&](int i) { return Bf16At(p, i); });
}
ROSE_INLINE Vec LoadBf16Part(const uint8_t* p, int64_t n) {
  return Each([&](int i) { return i < n ? Bf16At(p, i) : 0.0f; });
}
ROSE_INLINE Vec Add(Vec a, Vec b) {
  return Each([&](int i) { return a.at[i] + b.at[i]; });
}
ROSE_INLINE Vec Sub(Vec a, Vec b) {
  return Each([&](int i) { return a.at[i] - b.at[i]; });
}
ROSE_INLINE Vec Mul(Vec a, Vec b) {
  return Each([&](int i) { return a.at[i] * b.at[i]; });
}
ROSE_INLINE Vec Div(Vec a, Vec b) {
  return Each([&](int i) { return a.at[i] / b.at[i]; });
}
ROSE_INLINE Vec Fma(Vec a, Vec b, Vec c) {
  return Add(Mul(a, b), c);
}
ROSE_INLINE Vec Min(Vec a, Vec b) {
  return Each([&](int i) { return a.at[i] < b.at[i] ? a.at[i] : b.at[i]; });
}
ROSE_INLINE Vec Max(Vec a, Vec b) {
  return Each([&](int i) { return a.at[i] > b.at[i] ? a.at[i] : b.at[i]; });
}
ROSE_INLINE Vec Exp(Vec a) {
  return Each([&](int i) { return a.at[i] < -80.0f ? 0.0f : std::exp(a.at[i]); });
}
ROSE_INLINE float Sum(Vec a) {
  return (a.at[0] + a.at[2]) + (a.at[1] + a.at[3]);
}
ROSE_INLINE float Largest(Vec a) {
  float most = a.at[0];
  for (int i = 1; i < kLanes; ++i) most = most > a.at[i] ? most : a.at[i];
  return most;
}
// even and odd elements of a then b.
ROSE_INLINE void Deinterleave(Vec a, Vec b, Vec* even, Vec* odd) {
  *even = {{a.at[0], a.at[2], b.at[0], b.at[2]}};
  *odd = {{a.at[1], a.at[3], b.at[1], b.at[3]}};
}
// kLanes E2M1 numbers, low nibble first.
ROSE_INLINE Vec LoadMxfp4(const uint8_t* p) {
  return Each([&](int i) { return kE2m1[(p[i / 2] >> (i % 2 * 4)) & 15]; });
}
ROSE_INLINE Vec LoadE4m3Part(const uint8_t* p, int64_t n) {
  return Each([&](int i) { return i < n ? ToFloat(E4m3{p[i]}) : 0.0f; });
}
ROSE_INLINE Vec LoadE4m3(const uint8_t* p) {
  return LoadE4m3Part(p, kLanes);
}

#include "ops/cpu_fast/kernels.inc"

}  // namespace

const KernelTable kScalarKernels{.isa = CpuIsa::kScalar,
                                 .gemm = Gemm,
                                 .attention = Attention,
                                 .swiglu = SwiGluRow,
                                 .rms_norm = RmsNormRow};

}  // namespace rose
