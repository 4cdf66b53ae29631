// Ops that work row by row. One thread: they are short beside the matrices.

#include "ops/cpu_fast/cpu_fast_ops.h"
#include "ops/host_rows.h"
#include "quant/codec.h"
#include "tensor/expect_shape.h"

namespace rose {

Tensor CpuFastOps::Embed(const Step& step, const Weight& table) {
  Dim vocab{"vocab"}, hidden{"hidden"};
  ExpectShape("embedding", table, {&vocab, &hidden});
  Tensor out = arena_.Take(DType::kF32, {static_cast<int64_t>(step.tokens.size()), hidden.value});
  float* row = out.data<float>();
  for (int32_t token : step.tokens) {
    ROSE_CHECK(token >= 0 && token < vocab.value, "token ", token, " of vocab ", vocab.value);
    DecodeRow(table, 0, token, {row, static_cast<size_t>(hidden.value)});
    row += hidden.value;
  }
  return out;
}

Tensor CpuFastOps::RmsNorm(const Tensor& x, const Weight& weight, float eps) {
  Dim tokens{"tokens"}, hidden{"hidden"};
  ExpectShape("x", x, DType::kF32, {&tokens, &hidden});
  ExpectShape("norm weight", weight, {&hidden});
  Tensor out = arena_.Take(DType::kF32, {tokens.value, hidden.value});
  for (int64_t t = 0; t < tokens.value; ++t) {
    kernels_->rms_norm(x.data<float>() + t * hidden.value,
                       static_cast<const uint8_t*>(weight.data.raw()), hidden.value, eps,
                       out.data<float>() + t * hidden.value);
  }
  return out;
}

Tensor CpuFastOps::AddRmsNorm(Tensor& residual, const Tensor& delta, const Weight& weight,
                              float eps) {
  AddRows(residual, delta);
  return RmsNorm(residual, weight, eps);
}

Tensor CpuFastOps::GatherLogitRows(const Tensor& x, const Step& step) {
  return CopyRows(x, step.logit_rows, arena_);
}

Tensor CpuFastOps::Logits(const Tensor& x, const Weight& weight) {
  return Gemm(x, weight, /*bias=*/{});
}

}  // namespace rose
