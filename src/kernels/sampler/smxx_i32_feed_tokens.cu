// Writes draws of the step before into the tokens of this one, so that the host need not see them
// first.
// Work      one thread a token. Bound: latency.
#include "base/check.h"
#include "device/launch.h"
#include "kernels/common/ptx/bulk_copy.cuh"
#include "kernels/sampler/sampler.h"

namespace rose {
namespace {

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads)
    smxx_i32_feed_tokens_kernel(const __grid_constant__ FeedTokensParams p) {
  ptx::DependencyLaunch();
  ptx::DependencyWait();
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= p.count) return;
  const FedToken fed = p.fed[i];
  p.tokens[fed.row] = max(0, p.drawn[fed.draw]);
}

}  // namespace

void LaunchFeedTokens(const FeedTokensParams& params, cudaStream_t stream) {
  ROSE_CHECK(params.count >= 0 && params.count <= 0x7fffffff, "count=", params.count);
  if (params.count == 0) return;
  Launch("smxx_i32_feed_tokens", smxx_i32_feed_tokens_kernel,
         {.grid = dim3(static_cast<unsigned>((params.count + kThreads - 1) / kThreads)),
          .block = dim3(kThreads),
          .dependent = true},
         stream, params);
}

}  // namespace rose
