// x . weight^T + bias: each weight row is decoded once, then used for every token.
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/dot.h"
#include "quant/codec.h"
#include "tensor/expect_shape.h"

namespace rose {

Tensor CpuOps::Gemm(const Tensor& x, const Weight& weight, const Weight& bias) {
  Dim tokens{"tokens"}, rows{"rows"}, cols{"cols"};
  ExpectShape("x", x, DType::kF32, {&tokens, &cols});
  ExpectShape("weight", weight, {&rows, &cols});
  if (!bias.empty()) ExpectShape("bias", bias, {&rows});
  Tensor out = arena_.Take(DType::kF32, {tokens.value, rows.value});
  std::vector<float> w(cols.value);
  for (int64_t r = 0; r < rows.value; ++r) {
    DecodeRow(weight, 0, r, w);
    for (int64_t t = 0; t < tokens.value; ++t) {
      const float* in = x.data<float>() + t * cols.value;
      out.data<float>()[t * rows.value + r] = Dot(in, w.data(), cols.value) + BiasAt(bias, r);
    }
  }
  return out;
}

}  // namespace rose
