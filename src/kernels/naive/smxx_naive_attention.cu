// Computes  causal attention over pages, with a window and sinks.
// Work      a warp a (row, head); lanes share the head's dims, keys one after the other.
#include "base/check.h"
#include "device/bf16.cuh"
#include "device/launch.h"
#include "kernels/naive/naive.h"

namespace rose {
namespace {

constexpr int kPageSize = 64;
constexpr int kWarps = 4;
constexpr int kMaxPerLane = 8;  // dims of a lane

__global__ void __launch_bounds__(kWarps * 32)
    smxx_naive_attention_kernel(const __grid_constant__ NaiveAttentionParams p) {
  const int64_t row = blockIdx.x;
  const int head = blockIdx.y * kWarps + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (head >= p.heads) return;
  const int kv_head = head / (p.heads / p.kv_heads);
  const int64_t position = p.step.positions[row];
  const int64_t first = p.window > 0 && position >= p.window ? position - p.window + 1 : 0;
  const int32_t* pages = p.step.pages + p.step.seqs[p.step.row_seq[row]].pages_at[p.group];
  const Bf16* q =
      p.qkv + row * (p.heads + 2 * p.kv_heads) * int64_t{p.head_dim} + head * p.head_dim;
  const float scale = 1.0f / sqrtf(static_cast<float>(p.head_dim));

  float own[kMaxPerLane], out[kMaxPerLane];
  for (int n = 0; n < kMaxPerLane; ++n) {
    const int i = lane + 32 * n;
    own[n] = i < p.head_dim ? Widen(q[i].bits) : 0;
    out[n] = 0;
  }
  float largest = -INFINITY;
  float sum = 0;
  for (int64_t j = first; j <= position; ++j) {
    const int64_t page = pages[j / kPageSize];
    const int64_t at = ((page * p.kv_heads + kv_head) * kPageSize + j % kPageSize) * p.head_dim;
    float dot = 0;
    for (int n = 0; n < kMaxPerLane; ++n) {
      const int i = lane + 32 * n;
      if (i < p.head_dim) dot += own[n] * Widen(p.keys[at + i].bits);
    }
    const float score = WarpSum(dot) * scale;
    const float now = fmaxf(largest, score);
    const float shrink = expf(largest - now);
    const float weight = expf(score - now);
    sum = sum * shrink + weight;
    for (int n = 0; n < kMaxPerLane; ++n) {
      const int i = lane + 32 * n;
      if (i < p.head_dim) out[n] = out[n] * shrink + weight * Widen(p.values[at + i].bits);
    }
    largest = now;
  }
  if (p.sinks != nullptr) {
    // One more logit, neither scaled nor masked, whose value is nothing.
    const float sink = Widen(p.sinks[head].bits);
    const float now = fmaxf(largest, sink);
    const float shrink = expf(largest - now);
    sum = sum * shrink + expf(sink - now);
    for (float& value : out) value *= shrink;
  }
  for (int n = 0; n < kMaxPerLane; ++n) {
    const int i = lane + 32 * n;
    if (i < p.head_dim) p.out[(row * p.heads + head) * p.head_dim + i].bits = Narrow(out[n] / sum);
  }
}

}  // namespace

void LaunchNaiveAttention(const NaiveAttentionParams& params, cudaStream_t stream) {
  ROSE_CHECK(params.head_dim > 0 && params.head_dim <= 32 * kMaxPerLane,
             "head_dim=", params.head_dim);
  if (params.step.rows == 0) return;
  Launch("smxx_naive_attention", smxx_naive_attention_kernel,
         {.grid = dim3(static_cast<unsigned>(params.step.rows),
                       static_cast<unsigned>((params.heads + kWarps - 1) / kWarps)),
          .block = dim3(kWarps * 32)},
         stream, params);
}

}  // namespace rose
