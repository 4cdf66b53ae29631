// Computes  out = x . weight^T + bias  for any size, in the order that gemm.h gives; the shortest
//           form of it, and what the tests hold the other kernels against.
// Work      one warp makes 16 columns of the output for 8 tokens, straight from global memory.
// Requires  k a multiple of 8.
#include "device/launch.h"
#include "kernels/common/ptx/mma_sync.cuh"
#include "kernels/gemm/internal.h"
#include "kernels/gemm/store.cuh"

namespace rose {
namespace {

constexpr int kRows = 16;  // of the weight, a warp
constexpr int kTokens = 8;
constexpr int kWarps = 4;
constexpr int kChunk = 512;

// Two neighbours of a row, or zeros where the row or the column does not exist.
__device__ uint32_t Pair(const Bf16* row, bool exists, int64_t column, int64_t k) {
  return exists && column < k ? *reinterpret_cast<const uint32_t*>(row + column) : 0;
}

__global__ void __launch_bounds__(kWarps * 32)
    sm90_bf16_gemm_plain_kernel(const __grid_constant__ GemmParams p) {
  const int lane = threadIdx.x % 32, row = lane / 4, column = lane % 4 * 2;
  const int64_t n = (int64_t{blockIdx.x} * kWarps + threadIdx.x / 32) * kRows + row;
  const int64_t token = int64_t{blockIdx.y} * kTokens + row;
  const Bf16* w = p.weight + n * p.k;
  const Bf16* x = p.x + token * p.x_stride;
  const bool low = n < p.n, high = n + 8 < p.n, valid = token < p.tokens;
  float total[4] = {};
  for (int64_t chunk = 0; chunk < p.k; chunk += kChunk) {
    float sum[4] = {};
    for (int64_t k = chunk + column; k < min(chunk + kChunk, p.k) + column; k += 16) {
      const uint32_t a[4] = {Pair(w, low, k, p.k), Pair(w + 8 * p.k, high, k, p.k),
                             Pair(w, low, k + 8, p.k), Pair(w + 8 * p.k, high, k + 8, p.k)};
      ptx::MmaBf16(sum, a, Pair(x, valid, k, p.k), Pair(x, valid, k + 8, p.k));
    }
    for (int i = 0; i < 4; ++i) total[i] = chunk == 0 ? sum[i] : total[i] + sum[i];
  }
  for (int i = 0; i < 4; ++i) {
    const int64_t to_n = n + i / 2 * 8, to_token = token - row + column + i % 2;
    if (to_n < p.n && to_token < p.tokens) {
      StoreSum(p, to_token, to_n, total[i] + BiasOf(p.bias, to_n));
    }
  }
}

}  // namespace

void LaunchGemmBf16Plain(const GemmParams& params, cudaStream_t stream) {
  CheckGemm(params);
  if (params.tokens == 0) return;
  Launch("sm90_bf16_gemm_plain", sm90_bf16_gemm_plain_kernel,
         {.grid = dim3(static_cast<unsigned>(CeilDivide(params.n, kRows * kWarps)),
                       static_cast<unsigned>(CeilDivide(params.tokens, kTokens))),
          .block = dim3(kWarps * 32)},
         stream, params);
}

}  // namespace rose
