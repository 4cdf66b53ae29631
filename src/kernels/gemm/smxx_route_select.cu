// Computes  the top_k largest of each row of logits, best first, ties to the lower index, and the
//           softmax over those.
// Work      a warp a token; a lane holds every 32nd logit as a number that orders as the logits do.
//           top_k rounds of a maximum over the warp.
// Bound     latency.
#include "base/check.h"
#include "device/launch.h"
#include "kernels/common/ptx/bulk_copy.cuh"
#include "kernels/gemm/gemm.h"

namespace rose {
namespace {

constexpr int kWarps = 4;

// Larger logits give larger numbers, equal ones (-0 and +0, too) equal numbers; NaN gives the
// smallest, above the 0 of one that is taken.
__device__ uint32_t OrderOf(float logit) {
  if (isnan(logit)) return 1;
  const uint32_t bits = __float_as_uint(logit + 0.0f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

template <int kPerLane>
__global__ void __launch_bounds__(kWarps * 32)
    smxx_route_select_kernel(const __grid_constant__ RouteParams p) {
  ptx::DependencyLaunch();
  ptx::DependencyWait();
  const int lane = threadIdx.x % 32;
  const int64_t token = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (token >= p.tokens) return;
  const float* logits = p.logits + token * p.experts;
  uint32_t order[kPerLane];
  for (int i = 0; i < kPerLane; ++i) {
    const int expert = lane + 32 * i;
    order[i] = expert < p.experts ? OrderOf(logits[expert]) : 0;
  }
  int mine = 0;  // the expert of rank `lane`
  for (int k = 0; k < p.top_k; ++k) {
    // Of equal ones the lower index wins: it is the larger complement.
    uint64_t best = 0;
    for (int i = 0; i < kPerLane; ++i) {
      best = max(best, uint64_t{order[i]} << 32 | ~static_cast<uint32_t>(lane + 32 * i));
    }
    for (int offset = 16; offset > 0; offset /= 2) {
      best = max(best, __shfl_xor_sync(~0u, best, offset));
    }
    const int expert = static_cast<int>(~static_cast<uint32_t>(best));
    for (int i = 0; i < kPerLane; ++i) {
      if (expert == lane + 32 * i) order[i] = 0;
    }
    if (lane == k) mine = expert;
  }
  const float logit = lane < p.top_k ? logits[mine] : 0;
  const float weight = expf(logit - __shfl_sync(~0u, logit, 0));
  float sum = 0;
  for (int k = 0; k < p.top_k; ++k) sum += __shfl_sync(~0u, weight, k);
  if (lane < p.top_k) {
    p.chosen[token * p.top_k + lane] = mine;
    p.weights[token * p.top_k + lane] = weight / sum;
  }
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
