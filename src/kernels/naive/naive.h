// Launchers of plain kernels for every product of the model: any packing, any size, a row's bits
// independent of the other rows. They let the whole model run before, and serve as a check beside,
// the kernels that are built for speed.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/device_step.h"
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

struct NaiveRouteParams {
  const float* logits = nullptr;  // [tokens, experts]
  int32_t* experts = nullptr;     // [tokens, top_k]
  float* weights = nullptr;       // [tokens, top_k]
  int64_t tokens = 0;
  int expert_count = 0;
  int top_k = 0;
};
// The top_k largest logits of each row, best first, ties to the lower index; softmax over those.
void LaunchNaiveRoute(const NaiveRouteParams& params, cudaStream_t stream);

struct NaiveExpertsParams {
  const Bf16* x = nullptr;           // gate_up: [tokens, cols]; down: [tokens, top_k, cols]
  const int32_t* experts = nullptr;  // [tokens, top_k]
  const float* routing = nullptr;    // [tokens, top_k]; down only
  WeightView weight;                 // [experts, rows, cols]
  const Bf16* bias = nullptr;        // [experts, rows], null = none
  Bf16* out = nullptr;               // gate_up: [tokens, top_k, rows / 2]; down: [tokens, rows]
  int64_t tokens = 0;
  int top_k = 0;
  float limit = 0, alpha = 0, up_offset = 0;  // of SwiGlu; gate_up only
};
void LaunchNaiveGateUp(const NaiveExpertsParams& params, cudaStream_t stream);
void LaunchNaiveDown(const NaiveExpertsParams& params, cudaStream_t stream);

struct NaiveAttentionParams {
  const Bf16* qkv = nullptr;   // [rows, (heads + 2 kv_heads) * head_dim]
  const Bf16* keys = nullptr;  // [pages, kv_heads, 64, head_dim]
  const Bf16* values = nullptr;
  const Bf16* sinks = nullptr;  // [heads], null = none
  Bf16* out = nullptr;          // [rows, heads * head_dim]
  DeviceStep step;
  int group = 0;
  int heads = 0, kv_heads = 0, head_dim = 0;  // head_dim at most 256
  int64_t window = 0;                         // 0 = all keys
};
// Causal attention over pages. One pass with a running maximum, keys in ascending order.
void LaunchNaiveAttention(const NaiveAttentionParams& params, cudaStream_t stream);

}  // namespace rose
