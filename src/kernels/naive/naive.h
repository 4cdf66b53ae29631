// Launcher of a plain product: any packing, any size, a row's bits independent of the other rows.
// For dense weights that no kernel built for speed takes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/weight.h"
#include "tensor/dtype.h"

namespace rose {

struct NaiveGemmParams {
  const Bf16* x = nullptr;     // [tokens, weight.cols]
  WeightView weight;           // [rows, cols]
  const Bf16* bias = nullptr;  // [rows], null = none
  Bf16* out = nullptr;         // [tokens, rows]; null = out_f32 is written
  float* out_f32 = nullptr;    // [tokens, rows]
  int64_t tokens = 0;
};
// out = x . weight^T + bias, f32 sums, rounded once.
void LaunchNaiveGemm(const NaiveGemmParams& params, cudaStream_t stream);

}  // namespace rose
