// Computes  out = x . weight^T + bias  with E4M3 weights and block scales, in the order that gemm.h
//           gives, for any number of tokens.
// Work      as stream.cuh says; the weights become bf16 on their way from shared memory to the
//           registers of the products, x stays in shared memory.
// Bound     memory for few tokens: n * k bytes. For many, decoding: every 64 tokens do it again.
// Requires  k a multiple of 16, 16-byte alignment.
// Measured  on one H200 (2026-11-30, as the bf16 form): 1 to 8 tokens 2048 -> 5120 11.4 us = 0.92
//           TB/s, 4096 -> 2048 20.7 us; 64 tokens 15.3 and 27.0 us; 2048 tokens 431 and 790 us. Not
//           tuned: the total goes through shared memory every 128 columns.
#include "base/check.h"
#include "kernels/gemm/stream.cuh"

namespace rose {
namespace {

// Two E4M3 numbers in the upper bytes of the halves -> bf16. The bits of exponent and mantissa lie
// at the same distance from each other; the product by 2^120 corrects the bias, subnormals too.
// 0x7f would become 480.
__device__ uint32_t WidenPair(uint32_t halves) {
  const uint32_t small = ptx::AndOr(halves, 0x80008000u, (halves & 0x7f007f00u) >> 4);
  return ptx::MulBf16x2(small, 0x7b807b80u);
}

template <int kNumTokens>
struct Fp8Rows {
  using Gemm = GemmFp8BlockParams;
  static constexpr int kTokens = kNumTokens;
  static constexpr int kStageColumns = 128;
  static constexpr int kBoxes = 1;
  static constexpr int kStepsPerChunk = 1;  // 128 columns have one scale
  static constexpr int kGroups = 4;

  // Of rows n and n + 8, in stage `step`.
  __device__ static float2 ScalesOf(const Gemm& p, int64_t n, int step) {
    return {ScaleOf(p, n, step), ScaleOf(p, n + 8, step)};
  }

  __device__ static void Multiply(const uint8_t* weights, int, const uint8_t* x,
                                  float (&sum)[kTokens / 2]) {
    const int lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane / 4;
    uint32_t a[kStageColumns / 16][4];
#pragma unroll
    for (int k = 0; k < kStageColumns / 16; ++k) Fragment(weights, row, lane % 4, k, a[k]);
    const uint64_t b = ptx::TileDescriptor(x);
    ptx::ProductFence();
#pragma unroll
    for (int k = 0; k < kStageColumns / 16; ++k) {
      ptx::WarpgroupProduct<kTokens>::Registers(sum, a[k],
                                                b + k / 4 * BoxBytes(kTokens) / 16 + k % 4 * 2, 1);
    }
  }

 private:
  __device__ static float ScaleOf(const Gemm& p, int64_t n, int step) {
    if (n >= p.n) return 0;
    const int64_t row = n / p.woven / p.block_rows * p.woven + n % p.woven;
    return p.scales[row * ((p.k + 127) / 128) + step];
  }

  // Rows `row` and `row` + 8 of the 16 columns `k`, which are one 16-byte piece of a swizzled row:
  // columns 2 pair, 2 pair + 1, and 8 further.
  __device__ static void Fragment(const uint8_t* weights, int row, int pair, int k,
                                  uint32_t (&a)[4]) {
    const uint32_t select = pair % 2 == 0 ? 0x1404 : 0x3424;
#pragma unroll
    for (int down = 0; down < 2; ++down) {
      const int at = (row + 8 * down) * kRowBytes + (k ^ row % 8) * 16;
      const uint4 piece = ptx::LoadShared16(ptx::SharedAddress(weights + at));
      a[down] = WidenPair(ptx::Permute(pair < 2 ? piece.x : piece.y, 0, select));
      a[down + 2] = WidenPair(ptx::Permute(pair < 2 ? piece.z : piece.w, 0, select));
    }
  }
};

template <int kTokens>
__global__ void __launch_bounds__(kStreamThreads<Fp8Rows<kTokens>>, 1)
    sm90_fp8_gemm_stream_kernel(const __grid_constant__ StreamParams<GemmFp8BlockParams> p) {
  RunStream<Fp8Rows<kTokens>>(p);
}

template <int kTokens>
void LaunchFor(const GemmFp8BlockParams& params, cudaStream_t stream) {
  LaunchStream<Fp8Rows<kTokens>>("sm90_fp8_gemm_stream", sm90_fp8_gemm_stream_kernel<kTokens>,
                                 params, stream);
}

}  // namespace

void LaunchGemmFp8Block(const GemmFp8BlockParams& params, cudaStream_t stream) {
  CheckSizes(params, /*vector=*/16);
  ROSE_CHECK(params.scales != nullptr && params.block_rows >= 1 && params.woven >= 1,
             "block_rows=", params.block_rows, " woven=", params.woven);
  if (params.tokens == 0) return;
  if (params.tokens <= 8) return LaunchFor<8>(params, stream);
  if (params.tokens <= 16) return LaunchFor<16>(params, stream);
  if (params.tokens <= 32) return LaunchFor<32>(params, stream);
  LaunchFor<64>(params, stream);
}

}  // namespace rose
