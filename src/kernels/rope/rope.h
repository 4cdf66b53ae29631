// Launcher of the kernel between the QKV product and attention.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/device_step.h"
#include "tensor/dtype.h"

namespace rose {

struct RopeAppendKvParams {
  Bf16* qkv = nullptr;              // [rows, (heads + 2 kv_heads) * head_dim]; q and k are turned
  const float* inv_freq = nullptr;  // [head_dim / 2]
  float rope_scale = 1;             // of cos and sin
  const Bf16* q_norm = nullptr;     // [head_dim], weights of HeadNorms; both null = none
  const Bf16* k_norm = nullptr;
  float norm_eps = 0;
  Bf16* keys = nullptr;    // [pages, kv_heads, 64, head_dim]
  Bf16* values = nullptr;  // same shape
  DeviceStep step;
  int group = 0;  // KV group of the layer
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;  // even
};

// Norms (if it is wanted) and turns q and k of every row by its position (dims i and i + head_dim/2
// are a pair) and writes k and v to the row's page. f32 inside, one rounding at the store.
void LaunchRopeAppendKv(const RopeAppendKvParams& params, cudaStream_t stream);

}  // namespace rose
