// Launchers of the normalisation kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "device/progress_mark.h"
#include "tensor/dtype.h"

namespace rose {

struct RmsNormParams {
  float* residual = nullptr;     // [tokens, hidden]; written only where there is a delta
  const Bf16* delta = nullptr;   // [tokens, hidden]; null = nothing is added
  const Bf16* weight = nullptr;  // [hidden]
  Bf16* out = nullptr;           // [tokens, hidden]; overlaps no input
  int64_t tokens = 0;            // may be 0
  int hidden = 0;                // a multiple of 8, at most 8192
  float eps = 0;
  ProgressMark mark;
};

// residual += delta; out = residual / sqrt(mean(residual^2) + eps) * weight, row by row: f32
// throughout, one rounding at the store. All pointers are aligned to 16 bytes. A row's bits do not
// depend on the other rows.
void LaunchRmsNorm(const RmsNormParams& params, cudaStream_t stream);

}  // namespace rose
