// What the launchers of this folder share.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/gemm/gemm.h"

namespace rose {

constexpr int64_t CeilDivide(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// The current device's multiprocessors.
int Multiprocessors();

// Throws unless sizes, strides and alignments are those that gemm.h asks for.
void CheckGemm(const GemmParams& params);

// The kernels behind LaunchGemmBf16; each takes all sizes and gives the same bits.
void LaunchGemmBf16Plain(const GemmParams& params, cudaStream_t stream);
void LaunchGemmBf16Stream(const GemmParams& params, cudaStream_t stream);

}  // namespace rose
