// Which kernel serves a product.
#include "device/cuda_check.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/internal.h"

namespace rose {

int Multiprocessors() {
  int device = 0, count = 0;
  CudaCheck(cudaGetDevice(&device), "asking for the device");
  CudaCheck(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
            "asking for the number of multiprocessors");
  return count;
}

void LaunchGemmBf16(const GemmParams& params, cudaStream_t stream) {
  CheckSizes(params, /*vector=*/8);
  if (params.tokens == 0) return;
  constexpr int64_t kStreamTokens = 64;  // beyond, weights would be read more than once
  if (params.tokens <= kStreamTokens) return LaunchGemmBf16Stream(params, stream);
  LaunchGemmBf16Tiles(params, stream);
}

}  // namespace rose
