// Computes  out = sum over a token's slots, ascending, of routing weight * product: f32, rounded to
//           bf16 once.
// Work      a thread takes two neighbouring columns of a token.
// Bound     memory: reads 4 bytes a slot and column, writes 2 a column.
// Requires  rows (hidden) a multiple of 2.
// Measured  not yet.
#include "base/check.h"
#include "device/launch.h"
#include "kernels/common/ptx/bulk_copy.cuh"
#include "kernels/experts/moe_gemm.h"
#include "kernels/experts/moe_math.cuh"

namespace rose {
namespace {

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads)
    smxx_moe_sum_kernel(const __grid_constant__ MoeGemmParams p) {
  ptx::DependencyLaunch();
  ptx::DependencyWait();
  const int64_t token = blockIdx.x;
  const int row = 2 * static_cast<int>(blockIdx.y * kThreads + threadIdx.x);
  if (row >= p.weight.rows) return;
  *reinterpret_cast<uint32_t*>(p.out + token * p.weight.rows + row) = MoeSumPair(p, token, row);
}

}  // namespace

void LaunchMoeSum(const MoeGemmParams& params, cudaStream_t stream) {
  const auto tokens = static_cast<unsigned>(params.entry_count / params.experts_per_token);
  const auto parts =
      static_cast<unsigned>((params.weight.rows + 2 * kThreads - 1) / (2 * kThreads));
  Launch("smxx_moe_sum", smxx_moe_sum_kernel,
         {.grid = dim3(tokens, parts), .block = dim3(kThreads), .dependent = true}, stream, params);
}

}  // namespace rose
