// Launchers of the dense products and of the router.
//
// One order of the sum for all kernels of a product, so that a row of x has the same result, bit
// for bit, whatever rows are beside it and whichever kernel serves it:
//   - bf16 weights: k is cut into chunks of 512 columns. Within a chunk one chain of tensor core
//     products, 16 columns each, ascending, from zero. The chunks' sums are added in f32,
//     ascending, then the bias; rounded once, at the store.
//   - fp8-block weights: the same with chunks of 128 columns, E4M3 widened to bf16 (exact), and
//   each
//     chunk's sum times its block's scale before it is added.
// Same input, same bits.
//
// The kernels are launched as dependent (device/launch.h): weight, bias and scales must not be
// written by the kernels right ahead in the stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tensor/dtype.h"

namespace rose {

// out = x . weight^T + bias.
struct GemmParams {
  const Bf16* x = nullptr;        // [tokens, k], row stride x_stride
  const Bf16* weight = nullptr;   // [n, k], dense, as a checkpoint has it
  const Bf16* bias = nullptr;     // [n], or nullptr for none
  void* out = nullptr;            // [tokens, n], dense, of out_type; overlaps nothing
  DType out_type = DType::kBf16;  // kBf16 or kF32
  int64_t x_stride = 0;           // elements; a multiple of 8
  int64_t tokens = 0;             // may be 0
  int64_t n = 0;
  int64_t k = 0;  // a multiple of 8
};

// Takes the kernel that is fastest for these sizes. x, weight and out are aligned to 16 bytes, the
// bias to 4.
void LaunchGemmBf16(const GemmParams& params, cudaStream_t stream);

// out = x . weight^T + bias with E4M3 weights (0x7f and 0xff, its NaN, are none) and f32 scales of
// blocks.
struct GemmFp8BlockParams {
  const Bf16* x = nullptr;        // [tokens, k], row stride x_stride
  const E4m3* weight = nullptr;   // [n, k], dense
  const float* scales = nullptr;  // [ScaleRows(n), ceil(k/128)], dense; see WeightFormat
  const Bf16* bias = nullptr;     // [n], or nullptr for none
  void* out = nullptr;            // [tokens, n], dense, of out_type; overlaps nothing
  DType out_type = DType::kBf16;  // kBf16 or kF32
  int64_t x_stride = 0;           // elements; a multiple of 8
  int64_t tokens = 0;             // may be 0
  int64_t n = 0;
  int64_t k = 0;         // a multiple of 16
  int block_rows = 128;  // these two as WeightFormat has them
  int woven = 1;
};

void LaunchGemmFp8Block(const GemmFp8BlockParams& params, cudaStream_t stream);

// The top_k largest of logits = x . weight^T + bias (f32), best first, ties to the lower index, and
// the softmax over those; NaN is never preferred. The same choice as ops/host_rows.h makes.
struct RouteParams {
  const Bf16* x = nullptr;       // [tokens, hidden], row stride x_stride
  const Bf16* weight = nullptr;  // [experts, hidden], dense
  const Bf16* bias = nullptr;    // [experts], or nullptr for none
  float* logits = nullptr;       // [tokens, experts]: room for them; left behind
  int32_t* chosen = nullptr;     // [tokens, top_k]
  float* weights = nullptr;      // [tokens, top_k]
  int64_t x_stride = 0;          // elements; a multiple of 8
  int64_t tokens = 0;            // may be 0
  int64_t hidden = 0;            // a multiple of 8
  int experts = 0;               // at most kMaxRouted
  int top_k = 0;                 // in [1, experts], at most 32
};

inline constexpr int kMaxRouted = 1024;

void LaunchRoute(const RouteParams& params, cudaStream_t stream);

}  // namespace rose
