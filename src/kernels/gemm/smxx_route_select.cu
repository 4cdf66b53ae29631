// Computes  the top_k largest of each row of logits, best first, ties to the lower index, and the
//           softmax over those.
// Work      a warp a token, as route_select.cuh says.
// Bound     latency.
#include "base/check.h"
#include "device/launch.h"
#include "kernels/common/ptx/bulk_copy.cuh"
#include "kernels/gemm/internal.h"
#include "kernels/gemm/route_select.cuh"

namespace rose {
namespace {

constexpr int kWarps = 4;

template <int kPerLane>
__global__ void __launch_bounds__(kWarps * 32)
    smxx_route_select_kernel(const __grid_constant__ RouteParams p) {
  ptx::DependencyLaunch();
  ptx::DependencyWait();
  const int64_t token = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (token >= p.tokens) return;
  ChooseExperts<kPerLane>(p, p.logits + token * p.experts, token);
}

void LaunchSelect(const RouteParams& params, cudaStream_t stream) {
  constexpr auto kernel_for = [](int experts) {
    if (experts <= 32) return smxx_route_select_kernel<1>;
    if (experts <= 128) return smxx_route_select_kernel<4>;
    return smxx_route_select_kernel<kMaxRouted / 32>;
  };
  Launch("smxx_route_select", kernel_for(params.experts),
         {.grid = dim3(static_cast<unsigned>((params.tokens + kWarps - 1) / kWarps)),
          .block = dim3(kWarps * 32),
          .dependent = true},
         stream, params);
}

}  // namespace

void LaunchRoute(const RouteParams& params, cudaStream_t stream) {
  ROSE_CHECK(params.experts >= 1 && params.experts <= kMaxRouted, "experts=", params.experts);
  ROSE_CHECK(params.top_k >= 1 && params.top_k <= params.experts && params.top_k <= 32, "top ",
             params.top_k, " of ", params.experts, " experts");
  if (params.tokens == 0) return;
  if (IsFewRouted(params)) return LaunchRouteFew(params, stream);
  LaunchGemmBf16({.x = params.x,
                  .weight = params.weight,
                  .bias = params.bias,
                  .out = params.logits,
                  .out_type = DType::kF32,
                  .x_stride = params.x_stride,
                  .tokens = params.tokens,
                  .n = params.experts,
                  .k = params.hidden},
                 stream);
  LaunchSelect(params, stream);
}

}  // namespace rose
