// Dense matrix products.
#include "kernels/gemm/gemm.h"

#include "kernels/naive/naive.h"
#include "ops/cuda/cuda_op_set.h"
#include "ops/cuda/weight_view.h"
#include "tensor/expect_shape.h"

namespace rose {
namespace {

// x . weight^T + bias to `out` [tokens, rows], BF16 or F32.
void Multiply(const Tensor& x, const Weight& weight, const Weight& bias, const Tensor& out,
              cudaStream_t stream) {
  if (weight.format.packing == Packing::kBf16) {
    LaunchGemmBf16({.x = x.data<Bf16>(),
                    .weight = weight.data.data<Bf16>(),
                    .bias = VectorOf(bias),
                    .out = out.raw(),
                    .out_type = out.dtype(),
                    .x_stride = x.dim(1),
                    .tokens = x.dim(0),
                    .n = out.dim(1),
                    .k = x.dim(1)},
                   stream);
    return;
  }
  const WeightFormat& format = weight.format;
  if (format.packing == Packing::kFp8Block && format.block_rows == 128 && format.woven == 1 &&
      x.dim(1) % 16 == 0) {
    LaunchGemmFp8Block({.x = x.data<Bf16>(),
                        .weight = weight.data.data<E4m3>(),
                        .scales = weight.scales.data<float>(),
                        .bias = VectorOf(bias),
                        .out = out.raw(),
                        .out_type = out.dtype(),
                        .x_stride = x.dim(1),
                        .tokens = x.dim(0),
                        .n = out.dim(1),
                        .k = x.dim(1)},
                       stream);
    return;
  }
  // Formats that no kernel is built for.
  LaunchNaiveGemm({.x = x.data<Bf16>(),
                   .weight = ViewOf(weight),
                   .bias = VectorOf(bias),
                   .out = out.dtype() == DType::kBf16 ? out.data<Bf16>() : nullptr,
                   .out_f32 = out.dtype() == DType::kF32 ? out.data<float>() : nullptr,
                   .tokens = x.dim(0)},
                  stream);
}

}  // namespace

Tensor CudaOps::Gemm(const Tensor& x, const Weight& weight, const Weight& bias) {
  Dim tokens{"tokens"}, rows{"rows"}, cols{"cols"};
  ExpectShape("x", x, DType::kBf16, {&tokens, &cols});
  ExpectShape("weight", weight, {&rows, &cols});
  if (!bias.empty()) ExpectShape("bias", bias, {&rows});
  const OpScope op(trail_, "gemm",
                   {{"tokens", tokens.value}, {"rows", rows.value}, {"cols", cols.value}});
  Tensor out = layer().Take(DType::kBf16, {tokens.value, rows.value});
  Multiply(x, weight, bias, out, stream_.get());
  return out;
}

Tensor CudaOps::Logits(const Tensor& x, const Weight& weight) {
  Dim tokens{"tokens"}, vocab{"vocab"}, hidden{"hidden"};
  ExpectShape("x", x, DType::kBf16, {&tokens, &hidden});
  ExpectShape("lm_head", weight, {&vocab, &hidden});
  trail_.LeaveLayers();
  const OpScope op(trail_, "logits",
                   {{"tokens", tokens.value}, {"vocab", vocab.value}, {"hidden", hidden.value}});
  Tensor out = step_.Take(DType::kF32, {tokens.value, vocab.value});
  Multiply(x, weight, /*bias=*/{}, out, stream_.get());
  return out;
}

}  // namespace rose
