// Computes  out = x . weight^T + bias, with any packing.
// Work      a warp an output; lanes take every 32nd column, then a shuffle sum. Weights are read
//           once a token: slow for many.
#include "base/check.h"
#include "device/launch.h"
#include "kernels/naive/dot.cuh"
#include "kernels/naive/naive.h"

namespace rose {
namespace {

template <Packing kPacking>
__global__ void __launch_bounds__(kNaiveThreads)
    smxx_naive_gemm_kernel(const __grid_constant__ NaiveGemmParams p) {
  const int64_t token = blockIdx.x;
  const int64_t row = blockIdx.y * int64_t{kNaiveWarps} + threadIdx.x / 32;
  if (row >= p.weight.rows) return;
  float sum = WarpDot<kPacking>(p.x + token * p.weight.cols, p.weight, /*stack=*/0, row);
  if (threadIdx.x % 32 != 0) return;
  if (p.bias != nullptr) sum += Widen(p.bias[row].bits);
  if (p.out != nullptr) {
    p.out[token * p.weight.rows + row].bits = Narrow(sum);
  } else {
    p.out_f32[token * p.weight.rows + row] = sum;
  }
}

}  // namespace

void LaunchNaiveGemm(const NaiveGemmParams& params, cudaStream_t stream) {
  if (params.tokens == 0) return;
  DispatchPacking(params.weight.packing, [&](auto packing) {
    Launch("smxx_naive_gemm", smxx_naive_gemm_kernel<packing.value>,
           NaiveShape(params.tokens, params.weight.rows), stream, params);
  });
}

}  // namespace rose
