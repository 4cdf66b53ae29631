// Computes  out = x . weight^T + bias  for few tokens, in the order that gemm.h gives.
// Work      as stream.cuh says; both operands of the products lie in shared memory.
// Bound     memory: 2 * n * k bytes. The weights of a whole ring are under way before the kernel
//           waits for the one ahead of it.
// Requires  k a multiple of 8, 16-byte alignment.
// Measured  on one H200 (2026-11-30, cold weights, medians of graphs of dependent launches), 1 to 8
//           tokens: 2880 -> 5120 9.0 us = 3.27 TB/s, 4096 -> 2880 8.3 us = 2.85 TB/s, 2880 ->
//           201088 272 us = 4.26 TB/s, 2880 -> 32 4.8 us; 32 tokens 10.0, 10.8, 284 us; 64 tokens
//           12.5, 12.7 us. With copies of one block of 128 bytes a row, and stages of 128 columns:
//           9.4, 9.9, 271 and 6.8 us. Rings of 100 and 150 kB and two warpgroups instead of four:
//           within 4 % or slower (measured with the small copies).
#include "kernels/gemm/stream.cuh"

namespace rose {
namespace {

template <int kNumTokens>
struct Bf16Rows {
  using Gemm = GemmParams;
  static constexpr int kTokens = kNumTokens;
  static constexpr int kStageColumns = kTokens <= 16 ? 256 : 128;
  static constexpr int kBoxes = kStageColumns / 64;
  static constexpr int kStepsPerChunk = 512 / kStageColumns;
  static constexpr int kGroups = kTokens <= 16 ? 7 : 4;

  __device__ static float2 ScalesOf(const Gemm&, int64_t, int) { return {1, 1}; }

  __device__ static void Multiply(const uint8_t* weights, int weight_bytes, const uint8_t* x,
                                  float (&sum)[kTokens / 2]) {
    const uint64_t a = ptx::TileDescriptor(weights), b = ptx::TileDescriptor(x);
    ptx::ProductFence();
#pragma unroll
    for (int i = 0; i < kStageColumns / 16; ++i) {
      const int box = i / 4, k = i % 4;
      ptx::WarpgroupProduct<kTokens>::Shared(sum, a + box * weight_bytes / 16 + 2 * k,
                                             b + box * BoxBytes(kTokens) / 16 + 2 * k, 1);
    }
  }
};

template <int kTokens>
__global__ void __launch_bounds__(kStreamThreads<Bf16Rows<kTokens>>, 1)
    sm90_bf16_gemm_stream_kernel(const __grid_constant__ StreamParams<GemmParams> p) {
  RunStream<Bf16Rows<kTokens>>(p);
}

template <int kTokens>
void LaunchFor(const GemmParams& params, cudaStream_t stream) {
  LaunchStream<Bf16Rows<kTokens>>("sm90_bf16_gemm_stream", sm90_bf16_gemm_stream_kernel<kTokens>,
                                  params, stream);
}

}  // namespace

void LaunchGemmBf16Stream(const GemmParams& params, cudaStream_t stream) {
  if (params.tokens <= 8) return LaunchFor<8>(params, stream);
  if (params.tokens <= 16) return LaunchFor<16>(params, stream);
  if (params.tokens <= 32) return LaunchFor<32>(params, stream);
  LaunchFor<64>(params, stream);
}

}  // namespace rose
