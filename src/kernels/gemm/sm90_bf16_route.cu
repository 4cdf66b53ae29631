// Computes  the router for few tokens: logits in the order that gemm.h gives, the choice, and its
//           weights, in one kernel.
// Work      a cluster takes 8 tokens, each of its CTAs 16 experts, whose weights are in shared
// memory
//           before the wait for x. A warp takes a chunk of 512 columns, so that chunks, which the
//           order lets nobody add before they are whole, do not wait for each other. The first CTA
//           gathers the logits and chooses.
// Bound     latency: a chain of 32 products.
// Requires  k a multiple of 8, 16-byte alignment, at most kMostExperts experts.
// Measured  on one H200 (2026-11-30): one token, 32 experts, hidden 2880: 2.9 us in a step, where
// the
//           product and the choice in kernels of their own took some 1.7 more.
#include "device/launch.h"
#include "kernels/common/ptx/bulk_copy.cuh"
#include "kernels/common/ptx/tensor_copy.cuh"
#include "kernels/gemm/internal.h"
#include "kernels/gemm/route_select.cuh"
#include "kernels/gemm/store.cuh"

namespace rose {
namespace {

constexpr int64_t kMostTokens = 64;  // beyond, the other kernels read the weights less often
constexpr int kTokens = 8;           // of a cluster
constexpr int kExperts = 16;         // of a CTA
constexpr int kMostCtas = 8;         // of a cluster
constexpr int kMostExperts = kExperts * kMostCtas;
constexpr int kWarps = 8;
constexpr int kChunk = 512;  // columns
constexpr int kSteps = kChunk / 16;
constexpr int kMostChunks = 12;
static_assert(kWarps == kTokens, "a warp chooses for a token");

struct FewParams {
  RouteParams route;
  int pieces;  // of 16 bytes, a row of weights in shared memory: odd, so that rows differ in banks
};

struct alignas(16) FewShared {
  float logits[kTokens][kMostExperts];  // of the whole cluster, in its first CTA
  float sums[kMostChunks][kExperts][kTokens];
  uint64_t full;  // the weights are there
};

// The chunk's sums of the CTA's experts and the cluster's tokens.
__device__ void SumChunk(const FewParams& p, FewShared& shared, const uint8_t* weights, int chunk,
                         int64_t first_token) {
  const int lane = threadIdx.x % 32, begin = chunk * kChunk;
  const int columns = static_cast<int>(p.route.hidden) - begin;  // and perhaps more than a chunk
  const int64_t token = first_token + lane / 4;
  const Bf16* x = p.route.x + token * p.route.x_stride + begin + lane % 4 * 2;
  uint32_t b[kSteps][2];
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = 16 * i + 8 * half;
      const bool is_there = token < p.route.tokens && at < columns;
      b[i][half] = is_there ? *reinterpret_cast<const uint32_t*>(x + at) : 0;
    }
  }
  ptx::BarrierWait(&shared.full, 0);
  const uint32_t a_at =
      ptx::SharedAddress(weights) + (lane % 16 * p.pieces + begin / 8 + lane / 16) * 16;
  float sum[4] = {};
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    if (16 * i >= columns) break;
    const uint4 v = ptx::LoadMatrix4(a_at + 32 * i);
    const uint32_t a[4] = {v.x, v.y, v.z, v.w};
    ptx::MmaBf16(sum, a, b[i][0], b[i][1]);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    shared.sums[chunk][lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2] = sum[i];
  }
}

template <int kPerLane>
__global__ void __launch_bounds__(kWarps * 32)
    sm90_bf16_route_kernel(const __grid_constant__ FewParams p) {
  extern __shared__ __align__(128) uint8_t memory[];
  auto& shared = *reinterpret_cast<FewShared*>(memory);
  uint8_t* weights = memory + sizeof(FewShared);
  const RouteParams& r = p.route;
  ptx::DependencyLaunch();
  const int rank = static_cast<int>(ptx::ClusterRank()), warp = threadIdx.x / 32;
  const int ctas = (r.experts + kExperts - 1) / kExperts;
  const int rows = min(kExperts, r.experts - rank * kExperts);
  const int row_pieces = static_cast<int>(r.hidden / 8), rest = p.pieces - row_pieces;
  if (threadIdx.x == 0) {
    ptx::BarrierInit(&shared.full, 1);
    ptx::BarriersReady();
    ptx::BarrierExpect(&shared.full, rows * row_pieces * 16);
  }
  // Columns of the last product that are not there.
  for (int i = threadIdx.x; i < kExperts * rest; i += kWarps * 32) {
    reinterpret_cast<uint4*>(weights)[i / rest * p.pieces + row_pieces + i % rest] = {};
  }
  __syncthreads();  // the barrier is there, and the zeros
  if (threadIdx.x < rows) {
    ptx::BulkCopy(weights + threadIdx.x * p.pieces * 16,
                  r.weight + (int64_t{rank} * kExperts + threadIdx.x) * r.hidden, row_pieces * 16,
                  &shared.full);
  }
  __syncwarp();
  ptx::ClusterSync();  // the first CTA has begun
  ptx::DependencyWait();

  const int64_t first_token = int64_t{blockIdx.x} / ctas * kTokens;
  const int chunks = (static_cast<int>(r.hidden) + kChunk - 1) / kChunk;
  for (int chunk = warp; chunk < chunks; chunk += kWarps) {
    SumChunk(p, shared, weights, chunk, first_token);
  }
  __syncthreads();  // all chunks' sums are there
  const int row = threadIdx.x / kTokens, of_cluster = threadIdx.x % kTokens;
  const int64_t expert = rank * kExperts + row, token = first_token + of_cluster;
  if (row < rows && token < r.tokens) {
    float total = 0;
    for (int chunk = 0; chunk < chunks; ++chunk) total += shared.sums[chunk][row][of_cluster];
    total += BiasOf(r.bias, expert);
    r.logits[token * r.experts + expert] = total;
    ptx::StoreAt(&shared.logits[of_cluster][expert], 0, total);
  }
  __syncwarp();
  ptx::ClusterSync();  // all logits are in the first CTA
  if (rank == 0 && first_token + warp < r.tokens) {
    ChooseExperts<kPerLane>(r, shared.logits[warp], first_token + warp);
  }
}

}  // namespace

bool IsFewRouted(const RouteParams& params) {
  return params.tokens <= kMostTokens && params.experts <= kMostExperts && params.hidden % 8 == 0 &&
         params.hidden <= int64_t{kMostChunks} * kChunk;
}

void LaunchRouteFew(const RouteParams& params, cudaStream_t stream) {
  CheckSizes(GemmParams{.x = params.x,
                        .weight = params.weight,
                        .out_type = DType::kF32,
                        .x_stride = params.x_stride,
                        .tokens = params.tokens,
                        .n = params.experts,
                        .k = params.hidden},
             /*vector=*/8);
  const int pieces = static_cast<int>(CeilDivide(params.hidden, 16)) * 2 + 1;
  const size_t bytes = sizeof(FewShared) + size_t{kExperts} * pieces * 16;
  const auto ctas = static_cast<unsigned>(CeilDivide(params.experts, kExperts));
  const auto kernel =
      params.experts <= 32 ? sm90_bf16_route_kernel<1> : sm90_bf16_route_kernel<kMostExperts / 32>;
  AllowSharedMemory("sm90_bf16_route", kernel, bytes);
  Launch("sm90_bf16_route", kernel,
         {.grid = dim3(ctas * static_cast<unsigned>(CeilDivide(params.tokens, kTokens))),
          .block = dim3(kWarps * 32),
          .smem_bytes = bytes,
          .cluster = ctas,
          .dependent = true},
         stream, FewParams{params, pieces});
}

}  // namespace rose
