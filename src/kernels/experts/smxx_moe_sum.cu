// Computes  out = sum over a token's slots, ascending, of routing weight * product: f32, rounded to
//           bf16 once.
// Work      a thread takes two neighbouring columns of a token.
// Bound     memory: reads 4 bytes a slot and column, writes 2 a column.
// Requires  rows (hidden) a multiple of 2.
// Measured  not yet.
#include "base/check.h"
#include "device/launch.h"
#include "kernels/experts/moe_gemm.h"
#include "kernels/experts/moe_math.cuh"

namespace rose {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    smxx_moe_sum_kernel(const __grid_constant__ MoeGemmParams p) {
  const int64_t token = blockIdx.x;
  for (int row = 2 * static_cast<int>(threadIdx.x); row < p.weight.rows; row += 2 * kThreads)
    *reinterpret_cast<uint32_t*>(p.out + token * p.weight.rows + row) = MoeSumPair(p, token, row);
}

}  // namespace

void LaunchMoeSum(const MoeGemmParams& params, cudaStream_t stream) {
  const int tokens = params.entry_count / params.experts_per_token;
  Launch("smxx_moe_sum", smxx_moe_sum_kernel,
         {.grid = dim3(static_cast<unsigned>(tokens)), .block = dim3(kThreads)}, stream, params);
}

}  // namespace rose
