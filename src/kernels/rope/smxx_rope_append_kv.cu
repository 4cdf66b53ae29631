// Computes  q, k normed head by head (where there are weights) and turned by their position, in
//           place; k and v written to the row's page.
// Work      CTAs of a row share its heads; for many rows one CTA does them all, since cos and sin
//           of a row are the same for all heads. They are computed before the wait for q and k.
// Bound     memory, about 4 bytes an element; few rows are bound by latency.
#include "base/check.h"
#include "device/bf16.cuh"
#include "device/launch.h"
#include "kernels/common/ptx/bulk_copy.cuh"
#include "kernels/rope/rope.h"

namespace rose {
namespace {

constexpr int kThreads = 256;
constexpr int kMaxHalf = 128;  // head_dim / 2
constexpr int kPageSize = 64;
constexpr int kMaxHeads = 256;  // of q and k
constexpr int kWarps = kThreads / 32;
constexpr int64_t kFewRows = 64;  // whose heads are shared among CTAs
constexpr int kHeadsOfCta = 8;    // then

// What a head's numbers are multiplied by before their weights; one warp, all lanes get it.
__device__ float NormScale(const uint16_t* x, int dim, float eps) {
  float sum = 0;
  for (int i = threadIdx.x % 32; i < dim; i += 32) sum += Widen(x[i]) * Widen(x[i]);
  for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lane);
  return 1.0f / sqrtf(sum / static_cast<float>(dim) + eps);
}

__global__ void __launch_bounds__(kThreads)
    smxx_rope_append_kv_kernel(const __grid_constant__ RopeAppendKvParams p) {
  __shared__ float cosines[kMaxHalf], sines[kMaxHalf], scales[kMaxHeads];
  ptx::DependencyLaunch();
  const int64_t row = blockIdx.x;
  const int half = p.head_dim / 2;
  const int position = p.step.positions[row];
  for (int i = threadIdx.x; i < half; i += kThreads) {
    // Full precision: angles reach the number of positions.
    const float angle = static_cast<float>(position) * p.inv_freq[i];
    cosines[i] = cosf(angle) * p.rope_scale;
    sines[i] = sinf(angle) * p.rope_scale;
  }
  auto* qkv = reinterpret_cast<uint16_t*>(p.qkv) +
              row * (p.heads + 2 * p.kv_heads) * static_cast<int64_t>(p.head_dim);
  const bool is_normed = p.q_norm != nullptr;
  const int heads = p.heads + p.kv_heads;
  const int begin = heads * blockIdx.y / gridDim.y, end = heads * (blockIdx.y + 1) / gridDim.y;
  const DeviceSeq& seq = p.step.seqs[p.step.row_seq[row]];
  const int64_t page = p.step.pages[seq.pages_at[p.group] + position / kPageSize];
  const int64_t slot = page * p.kv_heads * kPageSize + position % kPageSize;
  ptx::DependencyWait();
  if (is_normed) {
    for (int head = begin + threadIdx.x / 32; head < end; head += kWarps) {
      scales[head] = NormScale(qkv + head * p.head_dim, p.head_dim, p.norm_eps);
    }
  }
  __syncthreads();  // all threads wait for the row's cosines and sines, and the heads' scales

  auto* keys = reinterpret_cast<uint16_t*>(p.keys);
  auto* values = reinterpret_cast<uint16_t*>(p.values);

  for (int t = begin * half + threadIdx.x; t < end * half; t += kThreads) {
    const int head = t / half;
    const int i = t % half;
    uint16_t* x = qkv + head * p.head_dim;
    float a = Widen(x[i]);
    float b = Widen(x[i + half]);
    if (is_normed) {
      const Bf16* weight = head < p.heads ? p.q_norm : p.k_norm;
      a = a * scales[head] * Widen(weight[i].bits);
      b = b * scales[head] * Widen(weight[i + half].bits);
    }
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
  const uint16_t* v = qkv + heads * p.head_dim;
  for (int t = blockIdx.y * kThreads + threadIdx.x; t < p.kv_heads * p.head_dim;
       t += gridDim.y * kThreads) {
    values[(slot + int64_t{t / p.head_dim} * kPageSize) * p.head_dim + t % p.head_dim] = v[t];
  }
}

}  // namespace

void LaunchRopeAppendKv(const RopeAppendKvParams& params, cudaStream_t stream) {
  ROSE_CHECK(params.head_dim > 0 && params.head_dim % 2 == 0 && params.head_dim <= 2 * kMaxHalf,
             "head_dim=", params.head_dim);
  ROSE_CHECK(params.heads > 0 && params.kv_heads > 0, params.heads, " and ", params.kv_heads);
  ROSE_CHECK(params.heads + params.kv_heads <= kMaxHeads, params.heads, " and ", params.kv_heads);
  ROSE_CHECK((params.q_norm == nullptr) == (params.k_norm == nullptr), "a norm of q or k alone");
  ROSE_CHECK(params.group >= 0 && params.group < kMaxKvGroups, "group=", params.group);
  if (params.step.rows == 0) return;
  const int parts = params.step.rows > kFewRows
                        ? 1
                        : (params.heads + params.kv_heads + kHeadsOfCta - 1) / kHeadsOfCta;
  Launch("smxx_rope_append_kv", smxx_rope_append_kv_kernel,
         {.grid = dim3(static_cast<unsigned>(params.step.rows), static_cast<unsigned>(parts)),
          .block = dim3(kThreads),
          .dependent = true},
         stream, params);
}

}  // namespace rose
