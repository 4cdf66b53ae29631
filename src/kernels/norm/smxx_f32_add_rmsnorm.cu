// Computes  residual += delta; out = residual / sqrt(mean(residual^2) + eps) * weight.
// Work      one CTA a row; a thread holds vectors of 8 elements, kThreads apart, in registers.
// Bound     memory: 12 * hidden bytes a row (8 without a delta). A single row is bound by latency.
// Requires  hidden a multiple of 8, at most 8 * kThreads * kVectors; 16-byte alignment.
#include "base/check.h"
#include "device/bf16.cuh"
#include "device/launch.h"
#include "kernels/common/ptx/bulk_copy.cuh"
#include "kernels/norm/norm.h"

namespace rose {
namespace {

constexpr int kVector = 8;     // elements of 16 bytes of bf16
constexpr int kThreads = 384;  // gpt-oss has 2880 / 8 = 360 vectors a row: one round
constexpr int kVectors = 3;    // of a thread, at most
constexpr int kMaxHidden = 8192;
static_assert(kMaxHidden <= kVector * kThreads * kVectors, "a row fits into the registers");

struct alignas(16) Bf16Vector {
  uint16_t bits[kVector];
};
struct alignas(16) F32Vector {
  float values[kVector];
};

// The sum of `x` over the CTA, in every thread, in a fixed order.
__device__ float BlockSum(float x) {
  __shared__ float partial[kThreads / 32];
  x = WarpSum(x);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
  __syncthreads();  // all threads wait for the warps' sums in `partial`
  float sum = 0;
  for (const float part : partial) sum += part;
  return sum;
}

__global__ void __launch_bounds__(kThreads)
    smxx_f32_add_rmsnorm_kernel(const __grid_constant__ RmsNormParams p) {
  const int64_t row = blockIdx.x;
  auto* residual = reinterpret_cast<F32Vector*>(p.residual + row * p.hidden);
  const auto* delta = reinterpret_cast<const Bf16Vector*>(p.delta + row * p.hidden);
  const auto* weight = reinterpret_cast<const Bf16Vector*>(p.weight);
  auto* out = reinterpret_cast<Bf16Vector*>(p.out + row * p.hidden);
  const int vectors = p.hidden / kVector;

  ptx::DependencyLaunch();
  Bf16Vector w[kVectors];
#pragma unroll
  for (int n = 0; n < kVectors; ++n) {
    const int i = threadIdx.x + n * kThreads;
    if (i < vectors) w[n] = weight[i];
  }
  ptx::DependencyWait();
  if (blockIdx.x == 0 && threadIdx.x == 0) LeaveMark(p.mark);
  F32Vector x[kVectors];
  float squares = 0;
#pragma unroll
  for (int n = 0; n < kVectors; ++n) {
    const int i = threadIdx.x + n * kThreads;
    if (i >= vectors) break;
    x[n] = residual[i];
    if (p.delta != nullptr) {
      const Bf16Vector d = delta[i];
      for (int k = 0; k < kVector; ++k) x[n].values[k] += Widen(d.bits[k]);
      residual[i] = x[n];
    }
    for (int k = 0; k < kVector; ++k) squares += x[n].values[k] * x[n].values[k];
  }
  const float mean = BlockSum(squares) / static_cast<float>(p.hidden);
  const float scale = 1.0f / sqrtf(mean + p.eps);
#pragma unroll
  for (int n = 0; n < kVectors; ++n) {
    const int i = threadIdx.x + n * kThreads;
    if (i >= vectors) break;
    Bf16Vector y;
    for (int k = 0; k < kVector; ++k) {
      y.bits[k] = Narrow(x[n].values[k] * scale * Widen(w[n].bits[k]));
    }
    out[i] = y;
  }
}

}  // namespace

void LaunchRmsNorm(const RmsNormParams& params, cudaStream_t stream) {
  ROSE_CHECK(params.hidden > 0 && params.hidden % kVector == 0 && params.hidden <= kMaxHidden,
             "hidden=", params.hidden, ": rows are vectors of ", kVector, ", at most ", kMaxHidden);
  ROSE_CHECK(params.tokens >= 0 && params.tokens <= 0x7fffffff, "tokens=", params.tokens);
  if (params.tokens == 0) return;
  Launch("smxx_f32_add_rmsnorm", smxx_f32_add_rmsnorm_kernel,
         {.grid = dim3(static_cast<unsigned>(params.tokens)),
          .block = dim3(kThreads),
          .dependent = true},
         stream, params);
}

}  // namespace rose
