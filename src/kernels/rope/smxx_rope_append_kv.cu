// Computes  q, k turned by their position, in place; k and v written to the row's page.
// Work      one CTA a row. cos and sin of a row are the same for all heads: computed once.
// Bound     memory, about 4 bytes an element; few rows are bound by latency.
#include "base/check.h"
#include "device/bf16.cuh"
#include "device/launch.h"
#include "kernels/rope/rope.h"

namespace rose {
namespace {

constexpr int kThreads = 256;
constexpr int kMaxHalf = 128;  // head_dim / 2
constexpr int kPageSize = 64;

__global__ void __launch_bounds__(kThreads)
    smxx_rope_append_kv_kernel(const __grid_constant__ RopeAppendKvParams p) {
  __shared__ float cosines[kMaxHalf], sines[kMaxHalf];
  const int64_t row = blockIdx.x;
  const int half = p.head_dim / 2;
  const int position = p.step.positions[row];
  for (int i = threadIdx.x; i < half; i += kThreads) {
    // Full precision: angles reach the number of positions.
    const float angle = static_cast<float>(position) * p.inv_freq[i];
    cosines[i] = cosf(angle) * p.rope_scale;
    sines[i] = sinf(angle) * p.rope_scale;
  }
  __syncthreads();  // all threads wait for the row's cosines and sines

  auto* qkv = reinterpret_cast<uint16_t*>(p.qkv) +
              row * (p.heads + 2 * p.kv_heads) * static_cast<int64_t>(p.head_dim);
  const DeviceSeq& seq = p.step.seqs[p.step.row_seq[row]];
  const int64_t page = p.step.pages[seq.pages_at[p.group] + position / kPageSize];
  const int64_t slot = page * p.kv_heads * kPageSize + position % kPageSize;
  auto* keys = reinterpret_cast<uint16_t*>(p.keys);
  auto* values = reinterpret_cast<uint16_t*>(p.values);

  for (int t = threadIdx.x; t < (p.heads + p.kv_heads) * half; t += kThreads) {
    const int head = t / half;
    const int i = t % half;
    uint16_t* x = qkv + head * p.head_dim;
    const float a = Widen(x[i]);
    const float b = Widen(x[i + half]);
    // Products rounded before the sum, as on the CPU.
    const uint16_t low = Narrow(__fsub_rn(__fmul_rn(a, cosines[i]), __fmul_rn(b, sines[i])));
    const uint16_t high = Narrow(__fadd_rn(__fmul_rn(b, cosines[i]), __fmul_rn(a, sines[i])));
    x[i] = low;
    x[i + half] = high;
    if (head >= p.heads) {
      uint16_t* to = keys + (slot + int64_t{head - p.heads} * kPageSize) * p.head_dim;
      to[i] = low;
      to[i + half] = high;
    }
  }
  const uint16_t* v = qkv + (p.heads + p.kv_heads) * p.head_dim;
  for (int t = threadIdx.x; t < p.kv_heads * p.head_dim; t += kThreads) {
    values[(slot + int64_t{t / p.head_dim} * kPageSize) * p.head_dim + t % p.head_dim] = v[t];
  }
}

}  // namespace

void LaunchRopeAppendKv(const RopeAppendKvParams& params, cudaStream_t stream) {
  ROSE_CHECK(params.head_dim > 0 && params.head_dim % 2 == 0 && params.head_dim <= 2 * kMaxHalf,
             "head_dim=", params.head_dim);
  ROSE_CHECK(params.heads > 0 && params.kv_heads > 0, params.heads, " and ", params.kv_heads);
  ROSE_CHECK(params.group >= 0 && params.group < kMaxKvGroups, "group=", params.group);
  if (params.step.rows == 0) return;
  Launch("smxx_rope_append_kv", smxx_rope_append_kv_kernel,
         {.grid = dim3(static_cast<unsigned>(params.step.rows)), .block = dim3(kThreads)}, stream,
         params);
}

}  // namespace rose
