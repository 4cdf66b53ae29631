// Computes  to[i] = from[rows[i]], whole rows of 4-byte words.
// Work      one CTA a row. Bound: memory, 2 * row_bytes a row; few rows in practice.
#include "base/check.h"
#include "device/launch.h"
#include "kernels/common/ptx/bulk_copy.cuh"
#include "kernels/rows/rows.h"

namespace rose {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    smxx_gather_rows_kernel(const __grid_constant__ GatherRowsParams p) {
  ptx::DependencyLaunch();
  ptx::DependencyWait();
  const int64_t row = blockIdx.x;
  const auto* from = reinterpret_cast<const uint32_t*>(p.from + p.rows[row] * p.row_bytes);
  auto* to = reinterpret_cast<uint32_t*>(p.to + row * p.row_bytes);
  for (int64_t i = threadIdx.x; i < p.row_bytes / 4; i += kThreads) to[i] = from[i];
}

}  // namespace

void LaunchGatherRows(const GatherRowsParams& params, cudaStream_t stream) {
  ROSE_CHECK(params.row_bytes >= 0 && params.row_bytes % 4 == 0, "row_bytes=", params.row_bytes);
  ROSE_CHECK(params.count >= 0 && params.count <= 0x7fffffff, "count=", params.count);
  if (params.count == 0) return;
  Launch("smxx_gather_rows", smxx_gather_rows_kernel,
         {.grid = dim3(static_cast<unsigned>(params.count)),
          .block = dim3(kThreads),
          .dependent = true},
         stream, params);
}

}  // namespace rose
