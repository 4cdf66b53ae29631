// The loops of kernels.inc with AVX2, FMA and F16C: eight lanes, sixteen registers.
#include <immintrin.h>

#include "ops/cpu_fast/bytes.h"
#include "ops/cpu_fast/kernels.h"

#define ROSE_TARGET __attribute__((target("avx2,fma,f16c")))
#define ROSE_INLINE __attribute__((always_inline)) ROSE_TARGET inline

namespace rose {
namespace {

constexpr int kLanes = 8;
constexpr int kTileRows = 2;
constexpr int kTileTokens = 4;

using Vec = __m256;

ROSE_INLINE Vec Zero() {
  return _mm256_setzero_ps();
}
ROSE_INLINE Vec Set1(float x) {
  return _mm256_set1_ps(x);
}
ROSE_INLINE Vec Load(const float* p) {
  return _mm256_loadu_ps(p);
}
ROSE_INLINE void Store(float* p, Vec a) {
  _mm256_storeu_ps(p, a);
}
// The first n lanes set.
ROSE_INLINE __m256i FirstLanes(int64_t n) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), lane);
}
ROSE_INLINE Vec LoadPart(const float* p, int64_t n) {
  return _mm256_maskload_ps(p, FirstLanes(n));
}
ROSE_INLINE void StorePart(float* p, Vec a, int64_t n) {
  _mm256_maskstore_ps(p, FirstLanes(n), a);
}
ROSE_INLINE Vec LoadBf16(const uint8_t* p) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
ROSE_INLINE Vec LoadBf16Part(const uint8_t* p, int64_t n) {
  uint8_t all[2 * kLanes] = {};
  __builtin_memcpy(all, p, 2 * n);
  return LoadBf16(all);
}
ROSE_INLINE Vec Add(Vec a, Vec b) {
  return _mm256_add_ps(a, b);
}
ROSE_INLINE Vec Sub(Vec a, Vec b) {
  return _mm256_sub_ps(a, b);
}
ROSE_INLINE Vec Mul(Vec a, Vec b) {
  return _mm256_mul_ps(a, b);
}
ROSE_INLINE Vec Div(Vec a, Vec b) {
  return _mm256_div_ps(a, b);
}
ROSE_INLINE Vec Fma(Vec a, Vec b, Vec c) {
  return _mm256_fmadd_ps(a, b, c);
}
ROSE_INLINE Vec Min(Vec a, Vec b) {
  return _mm256_min_ps(a, b);
}
ROSE_INLINE Vec Max(Vec a, Vec b) {
  return _mm256_max_ps(a, b);
}

ROSE_INLINE float Sum(Vec a) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
ROSE_INLINE float Largest(Vec a) {
  __m128 s = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  s = _mm_max_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

// e^x = 2^n e^r with |r| <= ln(2)/2: r by subtracting n ln(2) in two parts, e^r by its Taylor
// polynomial of degree 7 (relative error below 1e-8 before rounding). Infinite above 89; NaN stays
// NaN.
ROSE_INLINE Vec Exp(Vec x) {
  const Vec is_zero = _mm256_cmp_ps(x, Set1(-80.0f), _CMP_LT_OQ);
  x = Max(Set1(-80.0f), Min(Set1(89.0f), x));
  const Vec n =
      _mm256_round_ps(Mul(x, Set1(1.44269504f)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  Vec r = Fma(n, Set1(-0.693359375f), x);
  r = Fma(n, Set1(2.12194440e-4f), r);
  Vec p = Set1(1.0f / 5040);
  p = Fma(p, r, Set1(1.0f / 720));
  p = Fma(p, r, Set1(1.0f / 120));
  p = Fma(p, r, Set1(1.0f / 24));
  p = Fma(p, r, Set1(1.0f / 6));
  p = Fma(p, r, Set1(0.5f));
  p = Fma(p, r, Set1(1.0f));
  p = Fma(p, r, Set1(1.0f));
  const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  const Vec scale = _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
  return _mm256_andnot_ps(is_zero, Mul(p, scale));
}

// even and odd elements of a then b.
ROSE_INLINE void Deinterleave(Vec a, Vec b, Vec* even, Vec* odd) {
  const __m256d e = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0x88));
  const __m256d o = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0xdd));
  *even = _mm256_castpd_ps(_mm256_permute4x64_pd(e, 0xd8));
  *odd = _mm256_castpd_ps(_mm256_permute4x64_pd(o, 0xd8));
}

// kLanes E2M1 numbers, low nibble first: every lane shifts its nibble down, then bits 0..2 choose
// the magnitude and bit 3 becomes the sign.
ROSE_INLINE Vec LoadMxfp4(const uint8_t* p) {
  uint32_t word;
  __builtin_memcpy(&word, p, sizeof(word));
  const __m256i nibble = _mm256_srlv_epi32(_mm256_set1_epi32(static_cast<int>(word)),
                                           _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
  const Vec magnitudes = _mm256_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f);
  const __m256i sign = _mm256_and_si256(_mm256_slli_epi32(nibble, 28),
                                        _mm256_set1_epi32(static_cast<int>(0x80000000u)));
  return _mm256_xor_ps(_mm256_permutevar8x32_ps(magnitudes, nibble), _mm256_castsi256_ps(sign));
}

// E4M3 as half precision: the same mantissa and an exponent that is 8 smaller. NaN by hand.
ROSE_INLINE Vec LoadE4m3(const uint8_t* p) {
  const __m128i v = _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  const __m128i low = _mm_and_si128(v, _mm_set1_epi16(0x7f));
  const __m128i sign = _mm_slli_epi16(_mm_and_si128(v, _mm_set1_epi16(0x80)), 8);
  const __m128i nan =
      _mm_and_si128(_mm_cmpeq_epi16(low, _mm_set1_epi16(0x7f)), _mm_set1_epi16(0x7e00));
  const __m128i half = _mm_or_si128(_mm_or_si128(sign, _mm_slli_epi16(low, 7)), nan);
  return Mul(_mm256_cvtph_ps(half), Set1(256.0f));
}
ROSE_INLINE Vec LoadE4m3Part(const uint8_t* p, int64_t n) {
  uint8_t all[kLanes] = {};
  __builtin_memcpy(all, p, n);
  return LoadE4m3(all);
}

#include "ops/cpu_fast/kernels.inc"

}  // namespace

const KernelTable kAvx2Kernels{.isa = CpuIsa::kAvx2,
                               .gemm = Gemm,
                               .attention = Attention,
                               .swiglu = SwiGluRow,
                               .rms_norm = RmsNormRow};

}  // namespace rose
