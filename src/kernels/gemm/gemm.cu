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
  // The stream reads weights once, up to 64 tokens.
  constexpr int64_t kStreamTokens = 64, kBestStreamTokens = 32, kFillingRows = 2048;
  if (params.tokens <= kBestStreamTokens) return LaunchGemmBf16Stream(params, stream);
  const GemmWay tiles = PickGemmBf16Tiles(params), parts = PickGemmBf16Parts(params);
  // From 33 on the tiles of two CTAs are as fast or faster where they fill the SMs (measured for
  // 2880 and 5120 rows of the weight).
  const bool is_filled = parts.launch != nullptr && params.n >= kFillingRows;
  if (params.tokens <= kStreamTokens && !is_filled) return LaunchGemmBf16Stream(params, stream);
  (parts.cost < tiles.cost ? parts : tiles).launch(params, stream);
}

}  // namespace rose
