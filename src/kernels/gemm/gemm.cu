// Which kernel serves a product.
#include "base/check.h"
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

void CheckGemm(const GemmParams& params) {
  constexpr int64_t kMost = 0x7fffffff;  // coordinates of a bulk copy are 32 bits
  ROSE_CHECK(params.k > 0 && params.k % 8 == 0 && params.k <= kMost, "k=", params.k,
             ": rows are read in vectors of 8");
  ROSE_CHECK(params.n > 0 && params.n <= kMost, "n=", params.n);
  ROSE_CHECK(params.tokens >= 0 && params.tokens <= kMost, "tokens=", params.tokens);
  ROSE_CHECK(params.x_stride >= params.k && params.x_stride % 8 == 0, "x_stride=", params.x_stride,
             " k=", params.k);
  ROSE_CHECK(params.out_type == DType::kBf16 || params.out_type == DType::kF32,
             "out_type=", DTypeName(params.out_type));
  for (const Bf16* data : {params.x, params.weight}) {
    ROSE_CHECK_EQ(reinterpret_cast<uintptr_t>(data) % 16, 0u);
  }
}

void LaunchGemmBf16(const GemmParams& params, cudaStream_t stream) {
  CheckGemm(params);
  if (params.tokens == 0) return;
  LaunchGemmBf16Stream(params, stream);
}

}  // namespace rose
