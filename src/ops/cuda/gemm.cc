// Dense matrix products.
#include "kernels/naive/naive.h"
#include "ops/cuda/cuda_op_set.h"
#include "ops/cuda/weight_view.h"
#include "tensor/expect_shape.h"

namespace rose {

Tensor CudaOps::Gemm(const Tensor& x, const Weight& weight, const Weight& bias) {
  Dim tokens{"tokens"}, rows{"rows"}, cols{"cols"};
  ExpectShape("x", x, DType::kBf16, {&tokens, &cols});
  ExpectShape("weight", weight, {&rows, &cols});
  if (!bias.empty()) ExpectShape("bias", bias, {&rows});
  Tensor out = layer().Take(DType::kBf16, {tokens.value, rows.value});
  LaunchNaiveGemm({.x = x.data<Bf16>(),
                   .weight = ViewOf(weight),
                   .bias = VectorOf(bias),
                   .out = out.data<Bf16>(),
                   .tokens = tokens.value},
                  stream_.get());
  return out;
}

Tensor CudaOps::Logits(const Tensor& x, const Weight& weight) {
  Dim tokens{"tokens"}, vocab{"vocab"}, hidden{"hidden"};
  ExpectShape("x", x, DType::kBf16, {&tokens, &hidden});
  ExpectShape("lm_head", weight, {&vocab, &hidden});
  Tensor out = step_.Take(DType::kF32, {tokens.value, vocab.value});
  LaunchNaiveGemm({.x = x.data<Bf16>(),
                   .weight = ViewOf(weight),
                   .out_f32 = out.data<float>(),
                   .tokens = tokens.value},
                  stream_.get());
  return out;
}

}  // namespace rose
