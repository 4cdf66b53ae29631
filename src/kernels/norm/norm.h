// Launchers of the normalisation kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tensor/dtype.h"

namespace rose {

struct RmsNormParams {
  const Bf16* x = nullptr;       // [tokens, hidden], row stride x_stride
  const Bf16* weight = nullptr;  // [hidden]
  Bf16* out = nullptr;           // [tokens, hidden], dense; does not overlap x
  int64_t x_stride = 0;          // elements; a multiple of 8
  int64_t tokens = 0;            // may be 0
  int hidden = 0;                // a multiple of 8
  float eps = 0;
};

// out = x / sqrt(mean(x^2) + eps) * weight, row by row: f32 throughout, one rounding at the store.
// All pointers are aligned to 16 bytes. Same input, same bits.
void LaunchRmsNormBf16(const RmsNormParams& params, cudaStream_t stream);

}  // namespace rose
