// Computes  routing (top k, softmax), and the two products of the experts, with any packing.
// Work      a warp an output element, as in smxx_naive_gemm.cu; a thread a row of routing.
#include "base/check.h"
#include "device/launch.h"
#include "kernels/naive/dot.cuh"
#include "kernels/naive/naive.h"

namespace rose {
namespace {

constexpr int kMaxTopK = 16;

__global__ void __launch_bounds__(32)
    smxx_naive_route_kernel(const __grid_constant__ NaiveRouteParams p) {
  const int64_t token = blockIdx.x * int64_t{32} + threadIdx.x;
  if (token >= p.tokens) return;
  const float* logits = p.logits + token * p.expert_count;
  int32_t chosen[kMaxTopK];
  for (int k = 0; k < p.top_k; ++k) {
    int best = -1;
    for (int e = 0; e < p.expert_count; ++e) {
      bool taken = false;
      for (int i = 0; i < k; ++i) taken |= chosen[i] == e;
      if (taken) continue;
      // NaN is never preferred.
      if (best < 0 || logits[e] > logits[best] || (isnan(logits[best]) && !isnan(logits[e])))
        best = e;
    }
    chosen[k] = best;
  }
  float weights[kMaxTopK];
  float sum = 0;
  for (int k = 0; k < p.top_k; ++k) {
    weights[k] = expf(logits[chosen[k]] - logits[chosen[0]]);
    sum += weights[k];
  }
  for (int k = 0; k < p.top_k; ++k) {
    p.experts[token * p.top_k + k] = chosen[k];
    p.weights[token * p.top_k + k] = weights[k] / sum;
  }
}

template <Packing kPacking>
__global__ void __launch_bounds__(kNaiveThreads)
    smxx_naive_gate_up_kernel(const __grid_constant__ NaiveExpertsParams p) {
  const int64_t use = blockIdx.x;  // token * top_k + slot
  const int64_t inter = p.weight.rows / 2;
  const int64_t i = blockIdx.y * int64_t{kNaiveWarps} + threadIdx.x / 32;
  if (i >= inter) return;
  const int64_t expert = p.experts[use];
  const Bf16* x = p.x + use / p.top_k * p.weight.cols;
  float gate = WarpDot<kPacking>(x, p.weight, expert, 2 * i);
  float up = WarpDot<kPacking>(x, p.weight, expert, 2 * i + 1);
  if (threadIdx.x % 32 != 0) return;
  if (p.bias != nullptr) {
    gate += Widen(p.bias[expert * p.weight.rows + 2 * i].bits);
    up += Widen(p.bias[expert * p.weight.rows + 2 * i + 1].bits);
  }
  // Comparisons that are false for NaN, so that a NaN passes through.
  if (gate > p.limit) gate = p.limit;
  if (up > p.limit) up = p.limit;
  if (up < -p.limit) up = -p.limit;
  p.out[use * inter + i].bits = Narrow(gate / (1.0f + expf(-p.alpha * gate)) * (up + p.up_offset));
}

template <Packing kPacking>
__global__ void __launch_bounds__(kNaiveThreads)
    smxx_naive_down_kernel(const __grid_constant__ NaiveExpertsParams p) {
  const int64_t token = blockIdx.x;
  const int64_t row = blockIdx.y * int64_t{kNaiveWarps} + threadIdx.x / 32;
  if (row >= p.weight.rows) return;
  float sum = 0;
  for (int slot = 0; slot < p.top_k; ++slot) {  // in the order of slots, not of experts
    const int64_t use = token * p.top_k + slot;
    const int64_t expert = p.experts[use];
    float part = WarpDot<kPacking>(p.x + use * p.weight.cols, p.weight, expert, row);
    if (p.bias != nullptr) part += Widen(p.bias[expert * p.weight.rows + row].bits);
    sum += p.routing[use] * part;
  }
  if (threadIdx.x % 32 == 0) p.out[token * p.weight.rows + row].bits = Narrow(sum);
}

}  // namespace

void LaunchNaiveRoute(const NaiveRouteParams& params, cudaStream_t stream) {
  ROSE_CHECK(params.top_k >= 1 && params.top_k <= kMaxTopK && params.top_k <= params.expert_count,
             "top ", params.top_k, " of ", params.expert_count, " experts");
  if (params.tokens == 0) return;
  Launch("smxx_naive_route", smxx_naive_route_kernel,
         {.grid = dim3(static_cast<unsigned>((params.tokens + 31) / 32)), .block = dim3(32)},
         stream, params);
}

void LaunchNaiveGateUp(const NaiveExpertsParams& params, cudaStream_t stream) {
  if (params.tokens == 0) return;
  DispatchPacking(params.weight.packing, [&](auto packing) {
    Launch("smxx_naive_gate_up", smxx_naive_gate_up_kernel<packing.value>,
           NaiveShape(params.tokens * params.top_k, params.weight.rows / 2), stream, params);
  });
}

void LaunchNaiveDown(const NaiveExpertsParams& params, cudaStream_t stream) {
  if (params.tokens == 0) return;
  DispatchPacking(params.weight.packing, [&](auto packing) {
    Launch("smxx_naive_down", smxx_naive_down_kernel<packing.value>,
           NaiveShape(params.tokens, params.weight.rows), stream, params);
  });
}

}  // namespace rose
