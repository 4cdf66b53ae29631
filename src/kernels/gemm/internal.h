// What the launchers of this folder share.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <limits>

#include "base/check.h"
#include "device/tensor_map.h"
#include "kernels/gemm/gemm.h"

namespace rose {

constexpr int64_t CeilDivide(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// The current device's multiprocessors.
int Multiprocessors();

// Throws unless sizes, strides and alignments are those that gemm.h asks for; k a multiple of
// `vector`.
template <typename Gemm>
void CheckSizes(const Gemm& params, int64_t vector) {
  constexpr int64_t kMost = 0x7fffffff;  // coordinates of a bulk copy are 32 bits
  ROSE_CHECK(params.k > 0 && params.k % vector == 0 && params.k <= kMost, "k=", params.k,
             ": rows are read in vectors of ", vector);
  ROSE_CHECK(params.n > 0 && params.n <= kMost, "n=", params.n);
  ROSE_CHECK(params.tokens >= 0 && params.tokens <= kMost, "tokens=", params.tokens);
  ROSE_CHECK(params.x_stride >= params.k && params.x_stride % 8 == 0, "x_stride=", params.x_stride,
             " k=", params.k);
  ROSE_CHECK(params.out_type == DType::kBf16 || params.out_type == DType::kF32,
             "out_type=", DTypeName(params.out_type));
  ROSE_CHECK_EQ(reinterpret_cast<uintptr_t>(params.x) % 16, 0u);
  ROSE_CHECK_EQ(reinterpret_cast<uintptr_t>(params.weight) % 16, 0u);
  ROSE_CHECK_EQ(reinterpret_cast<uintptr_t>(params.out) % 16, 0u);
  ROSE_CHECK_EQ(reinterpret_cast<uintptr_t>(params.bias) % 4, 0u);
}

// Boxes of a dense or strided matrix.
inline MatrixBox BoxOf(const Bf16* data, int64_t rows, int64_t columns, int64_t stride, int take) {
  return {data, DType::kBf16, rows, columns, stride, take};
}
inline MatrixBox BoxOf(const E4m3* data, int64_t rows, int64_t columns, int64_t stride, int take) {
  return {data, DType::kE4m3, rows, columns, stride, take};
}

// The kernels behind LaunchGemmBf16; all give the same bits.
void LaunchGemmBf16Stream(const GemmParams& params, cudaStream_t stream);

// One of the ways to compute a product by tiles.
struct GemmWay {
  int64_t cost = std::numeric_limits<int64_t>::max();  // to compare
  void (*launch)(const GemmParams&, cudaStream_t) = nullptr;
};
// The best of the kernel's ways for these sizes. The second has none (the greatest cost) where the
// tiles are too many or k is too long.
GemmWay PickGemmBf16Tiles(const GemmParams& params);
GemmWay PickGemmBf16Parts(const GemmParams& params);

// The router for few tokens, in one kernel; with the bits of the others.
bool IsFewRouted(const RouteParams& params);
void LaunchRouteFew(const RouteParams& params, cudaStream_t stream);

}  // namespace rose
