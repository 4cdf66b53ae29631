// x . weight^T + bias: tiles of rows x tokens, one to a thread at a time.
#include <algorithm>

#include "ops/cpu_fast/cpu_fast_ops.h"
#include "tensor/expect_shape.h"

namespace rose {
namespace {

// A tile's weights and vectors together stay in the first-level cache for the models' sizes, and a
// tile of one token is still some microseconds of work.
constexpr int64_t kPanelRows = 64;
constexpr int64_t kPanelTokens = 24;
// Below this many multiplications, starting other threads costs more than it gains.
constexpr int64_t kSmallGemm = 32 * 1024;

int64_t Panels(int64_t n, int64_t panel) {
  return (n + panel - 1) / panel;
}

}  // namespace

Tensor CpuFastOps::Gemm(const Tensor& x, const Weight& weight, const Weight& bias) {
  Dim tokens{"tokens"}, rows{"rows"}, cols{"cols"};
  ExpectShape("x", x, DType::kF32, {&tokens, &cols});
  ExpectShape("weight", weight, {&rows, &cols});
  if (!bias.empty()) ExpectShape("bias", bias, {&rows});
  Tensor out = arena_.Take(DType::kF32, {tokens.value, rows.value});
  const int64_t scratch_floats = kGemmScratchRows * cols.value;
  const Tensor scratch = arena_.Take(DType::kF32, {pool_.threads(), scratch_floats});

  const auto run = [&](int64_t row_begin, int64_t row_end, int64_t token_begin, int64_t token_end,
                       int thread) {
    const float* in[kPanelTokens];
    float* to[kPanelTokens];
    for (int64_t t = token_begin; t < token_end; ++t) {
      in[t - token_begin] = x.data<float>() + t * cols.value;
      to[t - token_begin] = out.data<float>() + t * rows.value + row_begin;
    }
    kernels_->gemm({.matrix = MatrixOf(weight, 0),
                    .row_begin = row_begin,
                    .row_end = row_end,
                    .tokens = token_end - token_begin,
                    .x = in,
                    .out = to,
                    .bias = static_cast<const uint8_t*>(bias.data.raw()),
                    .scratch = scratch.data<float>() + thread * scratch_floats});
  };
  const bool is_small = tokens.value * rows.value * cols.value <= kSmallGemm;
  const int64_t panel_rows = is_small ? std::max<int64_t>(1, rows.value) : kPanelRows;
  const int64_t row_panels = Panels(rows.value, panel_rows);
  // Neighbouring items share their rows, which are then still near.
  const int64_t token_panels = Panels(tokens.value, kPanelTokens);
  pool_.Run(row_panels * token_panels, [&](int64_t item, int thread) {
    const int64_t row = item / token_panels * panel_rows;
    const int64_t token = item % token_panels * kPanelTokens;
    run(row, std::min(rows.value, row + panel_rows), token,
        std::min(tokens.value, token + kPanelTokens), thread);
  });
  return out;
}

}  // namespace rose
