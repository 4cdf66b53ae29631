// Computes  out = x / sqrt(mean(x^2) + eps) * weight  for each row; f32 inside, rounded to bf16
// once,
//           at the store.
// Work      one CTA a row; a thread takes vectors of 8 elements, kThreads apart.
// Bound     memory: a row is read and written once, 4 * hidden bytes. The second read hits L1.
// Requires  hidden and x_stride multiples of 8 (16-byte vectors), 16-byte alignment.
// Measured  on one H200 (2026-11-29, hidden 2880, median of 20 graphs of 30 launches over 3 input
//           sets): 1 token 1.8 us, 1024 tokens 5.3 us, 8192 tokens 35 us = 2.7 TB/s, 65536 tokens
//           260 us = 2.9 TB/s, of 4.2 TB/s that a copy reaches. Not tuned.
#include "base/check.h"
#include "device/launch.h"
#include "kernels/norm/norm.h"

namespace rose {
namespace {

constexpr int kVector = 8;  // bf16 values in 16 bytes

struct alignas(16) Bf16Vector {
  uint16_t bits[kVector];
};

__device__ float Widen(uint16_t bits) {
  return __uint_as_float(uint32_t{bits} << 16);
}

// To nearest, ties to even; NaN stays NaN. The same function as ToBf16 on the host.
__device__ uint16_t Narrow(float x) {
  const uint32_t u = __float_as_uint(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((u >> 16) | 0x40u);
  return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

// The sum of `x` over the CTA, in every thread, in a fixed order.
template <int kThreads>
__device__ float BlockSum(float x) {
  static_assert(kThreads % 32 == 0, "whole warps only: the shuffles name all 32 lanes");
  __shared__ float partial[kThreads / 32];
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(~0u, x, offset);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
  __syncthreads();  // all threads wait for the warps' sums in `partial`
  float sum = 0;
  for (const float part : partial) sum += part;
  return sum;
}

template <int kThreads>
__global__ void __launch_bounds__(kThreads)
    smxx_bf16_rmsnorm_kernel(const __grid_constant__ RmsNormParams p) {
  const int64_t row = blockIdx.x;
  const auto* x = reinterpret_cast<const Bf16Vector*>(p.x + row * p.x_stride);
  const auto* weight = reinterpret_cast<const Bf16Vector*>(p.weight);
  auto* out = reinterpret_cast<Bf16Vector*>(p.out + row * p.hidden);
  const int vectors = p.hidden / kVector;

  float squares = 0;
  for (int i = threadIdx.x; i < vectors; i += kThreads) {
    const Bf16Vector v = x[i];
    for (int k = 0; k < kVector; ++k) squares += Widen(v.bits[k]) * Widen(v.bits[k]);
  }
  const float mean = BlockSum<kThreads>(squares) / static_cast<float>(p.hidden);
  const float scale = 1.0f / sqrtf(mean + p.eps);
  for (int i = threadIdx.x; i < vectors; i += kThreads) {
    const Bf16Vector v = x[i];
    const Bf16Vector w = weight[i];
    Bf16Vector y;
    for (int k = 0; k < kVector; ++k)
      y.bits[k] = Narrow(Widen(v.bits[k]) * scale * Widen(w.bits[k]));
    out[i] = y;
  }
}

}  // namespace

void LaunchRmsNormBf16(const RmsNormParams& params, cudaStream_t stream) {
  ROSE_CHECK(params.hidden > 0 && params.hidden % kVector == 0, "hidden=", params.hidden,
             ": rows are read in vectors of ", kVector);
  ROSE_CHECK(params.x_stride >= params.hidden && params.x_stride % kVector == 0,
             "x_stride=", params.x_stride, " hidden=", params.hidden);
  ROSE_CHECK(params.tokens >= 0 && params.tokens <= 0x7fffffff, "tokens=", params.tokens);
  if (params.tokens == 0) return;
  constexpr int kThreads = 384;  // gpt-oss has 2880 / 8 = 360 vectors a row: one round
  Launch("smxx_bf16_rmsnorm", smxx_bf16_rmsnorm_kernel<kThreads>,
         {.grid = dim3(static_cast<unsigned>(params.tokens)), .block = dim3(kThreads)}, stream,
         params);
}

}  // namespace rose
