// Ops that work row by row: embedding, norms, gathering.
#include "kernels/rows/rows.h"

#include "kernels/norm/norm.h"
#include "ops/cuda/cuda_op_set.h"
#include "ops/cuda/weight_view.h"
#include "tensor/expect_shape.h"

namespace rose {

Tensor CudaOps::Embed(const Step& step, const Weight& table) {
  CheckStep(step);
  Dim vocab{"vocab"}, hidden{"hidden"};
  ExpectShape("embedding", table, {&vocab, &hidden});
  for (int32_t token : step.tokens) {
    ROSE_CHECK(token >= 0 && token < vocab.value, "token ", token, " of vocab ", vocab.value);
  }
  const int64_t tokens = inputs_.on_device().rows;
  const OpScope op(trail_, "embed",
                   {{"tokens", tokens}, {"vocab", vocab.value}, {"hidden", hidden.value}});
  Tensor out = step_.Take(DType::kF32, {tokens, hidden.value});
  LaunchEmbed({.table = ViewOf(table),
               .tokens = inputs_.on_device().tokens,
               .out = out.data<float>(),
               .rows = tokens,
               .mark = trail_.NewMark(tokens)},
              stream_.get());
  return out;
}

Tensor CudaOps::RmsNorm(const Tensor& x, const Weight& weight, float eps) {
  Dim tokens{"tokens"}, hidden{"hidden"};
  ExpectShape("x", x, DType::kF32, {&tokens, &hidden});
  ExpectShape("norm weight", weight, {&hidden});
  const OpScope op(trail_, "rms_norm", {{"tokens", tokens.value}, {"hidden", hidden.value}});
  Tensor out = layer().Take(DType::kBf16, {tokens.value, hidden.value});
  LaunchRmsNorm({.residual = x.data<float>(),
                 .delta = nullptr,
                 .weight = VectorOf(weight),
                 .out = out.data<Bf16>(),
                 .tokens = tokens.value,
                 .hidden = static_cast<int>(hidden.value),
                 .eps = eps,
                 .mark = trail_.NewMark(tokens.value)},
                stream_.get());
  return out;
}

Tensor CudaOps::AddRmsNorm(Tensor& residual, const Tensor& delta, const Weight& weight, float eps) {
  Dim tokens{"tokens"}, hidden{"hidden"};
  ExpectShape("residual", residual, DType::kF32, {&tokens, &hidden});
  ExpectShape("delta", delta, DType::kBf16, {&tokens, &hidden});
  ExpectShape("norm weight", weight, {&hidden});
  const OpScope op(trail_, "add_rms_norm", {{"tokens", tokens.value}, {"hidden", hidden.value}});
  Tensor out = layer().Take(DType::kBf16, {tokens.value, hidden.value});
  LaunchRmsNorm({.residual = residual.data<float>(),
                 .delta = delta.data<Bf16>(),
                 .weight = VectorOf(weight),
                 .out = out.data<Bf16>(),
                 .tokens = tokens.value,
                 .hidden = static_cast<int>(hidden.value),
                 .eps = eps,
                 .mark = trail_.NewMark(tokens.value)},
                stream_.get());
  return out;
}

Tensor CudaOps::GatherLogitRows(const Tensor& x, const Step& step) {
  CheckStep(step);
  ROSE_CHECK_EQ(x.rank(), 2);
  const int64_t rows = inputs_.on_device().logit_row_count;
  for (int32_t row : step.logit_rows) {
    ROSE_CHECK(row >= 0 && row < x.dim(0), "row ", row, " of ", x.dim(0));
  }
  const OpScope op(trail_, "gather_logit_rows", {{"rows", rows}, {"cols", x.dim(1)}});
  Tensor out = step_.Take(x.dtype(), {rows, x.dim(1)});
  LaunchGatherRows({.from = static_cast<const std::byte*>(x.raw()),
                    .rows = inputs_.on_device().logit_rows,
                    .to = static_cast<std::byte*>(out.raw()),
                    .row_bytes = x.dim(1) * ElementBytes(x.dtype()),
                    .count = rows},
                   stream_.get());
  return out;
}

}  // namespace rose
