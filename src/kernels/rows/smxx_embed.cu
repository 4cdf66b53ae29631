// Computes  out[i] = table[tokens[i]] in f32, exactly.
// Work      one CTA a row. Bound: memory, about 6 * hidden bytes a row with a bf16 table.
#include "base/check.h"
#include "device/launch.h"
#include "kernels/common/ptx/bulk_copy.cuh"
#include "kernels/rows/rows.h"
#include "kernels/weight.cuh"

namespace rose {
namespace {

constexpr int kThreads = 256;

template <Packing kPacking>
__global__ void __launch_bounds__(kThreads)
    smxx_embed_kernel(const __grid_constant__ EmbedParams p) {
  ptx::DependencyLaunch();
  ptx::DependencyWait();
  if (blockIdx.x == 0 && threadIdx.x == 0) LeaveMark(p.mark);
  const int64_t row = blockIdx.x;
  const int64_t token = p.tokens[row];
  for (int64_t col = threadIdx.x; col < p.table.cols; col += kThreads) {
    p.out[row * p.table.cols + col] = ElementOf<kPacking>(p.table, /*stack=*/0, token, col);
  }
}

}  // namespace

void LaunchEmbed(const EmbedParams& params, cudaStream_t stream) {
  ROSE_CHECK(params.rows >= 0 && params.rows <= 0x7fffffff, "rows=", params.rows);
  if (params.rows == 0) return;
  const auto launch = [&](auto kernel) {
    Launch("smxx_embed", kernel,
           {.grid = dim3(static_cast<unsigned>(params.rows)),
            .block = dim3(kThreads),
            .dependent = true},
           stream, params);
  };
  switch (params.table.packing) {
    case Packing::kBf16:
      return launch(smxx_embed_kernel<Packing::kBf16>);
    case Packing::kMxfp4:
      return launch(smxx_embed_kernel<Packing::kMxfp4>);
    case Packing::kFp8Block:
      return launch(smxx_embed_kernel<Packing::kFp8Block>);
  }
}

}  // namespace rose
