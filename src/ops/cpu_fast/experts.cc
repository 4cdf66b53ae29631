// The mixture of experts: tokens are grouped by expert, so that a row of weights that was decoded
// serves all tokens that want it.
#include <algorithm>

#include "ops/cpu_fast/cpu_fast_ops.h"
#include "ops/host_rows.h"
#include "tensor/expect_shape.h"

namespace rose {
namespace {

constexpr int64_t kPanelRows = 64;  // even: gate and up of a pair stay together
constexpr int64_t kPanelUses = 24;

// An expert's row of a bias [experts, rows], or null where there is none.
const uint8_t* BiasOf(const Weight& bias, int64_t expert) {
  if (bias.empty()) return nullptr;
  return static_cast<const uint8_t*>(bias.data.raw()) + expert * bias.shape[1] * sizeof(Bf16);
}

}  // namespace

Routing CpuFastOps::Route(const Tensor& x, const Weight& weight, const Weight& bias, int top_k) {
  return RouteRows(Gemm(x, weight, bias), top_k, arena_);
}

// Fills uses_ and parts_.
void CpuFastOps::PlanExperts(const Routing& routing, int64_t experts, int64_t rows) {
  const int64_t count = routing.experts.elements();
  const int32_t* chosen = routing.experts.data<int32_t>();
  std::vector<int64_t> begin(experts + 1, 0);
  for (int64_t i = 0; i < count; ++i) {
    ROSE_CHECK(chosen[i] >= 0 && chosen[i] < experts, "expert ", chosen[i], " of ", experts);
    ++begin[chosen[i] + 1];
  }
  for (int64_t e = 0; e < experts; ++e) begin[e + 1] += begin[e];
  uses_.resize(count);
  std::vector<int64_t> next(begin.begin(), begin.end() - 1);
  for (int64_t i = 0; i < count; ++i) uses_[next[chosen[i]]++] = static_cast<int32_t>(i);

  parts_.clear();
  for (int64_t e = 0; e < experts; ++e) {
    for (int64_t row = 0; row < rows; row += kPanelRows) {
      for (int64_t use = begin[e]; use < begin[e + 1]; use += kPanelUses) {
        parts_.push_back({e, row, std::min(rows, row + kPanelRows), use,
                          std::min(begin[e + 1], use + kPanelUses)});
      }
    }
  }
}

Tensor CpuFastOps::ExpertsGateUp(const Tensor& x, const Routing& routing, const Weight& weight,
                                 const Weight& bias, const SwiGlu& activation) {
  Dim tokens{"tokens"}, hidden{"hidden"}, experts{"experts"}, rows{"2*inter"}, top_k{"top_k"};
  ExpectShape("x", x, DType::kF32, {&tokens, &hidden});
  ExpectShape("experts", routing.experts, DType::kI32, {&tokens, &top_k});
  ExpectShape("gate_up", weight, {&experts, &rows, &hidden});
  if (!bias.empty()) ExpectShape("gate_up bias", bias, {&experts, &rows});
  ROSE_CHECK_EQ(rows.value % 2, 0);
  const int64_t inter = rows.value / 2;
  Tensor out = arena_.Take(DType::kF32, {tokens.value, top_k.value, inter});
  const int64_t scratch_floats = kGemmScratchRows * hidden.value;
  const Tensor scratch = arena_.Take(DType::kF32, {pool_.threads(), scratch_floats});
  PlanExperts(routing, experts.value, rows.value);

  pool_.Run(static_cast<int64_t>(parts_.size()), [&](int64_t item, int thread) {
    const ExpertPart& part = parts_[item];
    const int64_t part_rows = part.row_end - part.row_begin;
    const int64_t uses = part.use_end - part.use_begin;
    float gate_up[kPanelUses * kPanelRows];
    const float* in[kPanelUses];
    float* to[kPanelUses];
    for (int64_t u = 0; u < uses; ++u) {
      const int64_t token = uses_[part.use_begin + u] / top_k.value;
      in[u] = x.data<float>() + token * hidden.value;
      to[u] = gate_up + u * kPanelRows;
    }
    kernels_->gemm({.matrix = MatrixOf(weight, part.expert),
                    .row_begin = part.row_begin,
                    .row_end = part.row_end,
                    .tokens = uses,
                    .x = in,
                    .out = to,
                    .bias = BiasOf(bias, part.expert),
                    .scratch = scratch.data<float>() + thread * scratch_floats});
    for (int64_t u = 0; u < uses; ++u) {
      kernels_->swiglu(to[u], part_rows / 2, activation,
                       out.data<float>() + uses_[part.use_begin + u] * inter + part.row_begin / 2);
    }
  });
  return out;
}

Tensor CpuFastOps::ExpertsDown(const Tensor& x, const Routing& routing, const Weight& weight,
                               const Weight& bias) {
  Dim tokens{"tokens"}, hidden{"hidden"}, experts{"experts"}, inter{"inter"}, top_k{"top_k"};
  ExpectShape("x", x, DType::kF32, {&tokens, &top_k, &inter});
  ExpectShape("experts", routing.experts, DType::kI32, {&tokens, &top_k});
  ExpectShape("weights", routing.weights, DType::kF32, {&tokens, &top_k});
  ExpectShape("down", weight, {&experts, &hidden, &inter});
  if (!bias.empty()) ExpectShape("down bias", bias, {&experts, &hidden});
  // Every expert's answer apart, then summed by slot: the order of a sum must not depend on which
  // expert has which number.
  const Tensor answers = arena_.Take(DType::kF32, {tokens.value, top_k.value, hidden.value});
  const int64_t scratch_floats = kGemmScratchRows * inter.value;
  const Tensor scratch = arena_.Take(DType::kF32, {pool_.threads(), scratch_floats});
  PlanExperts(routing, experts.value, hidden.value);
  pool_.Run(static_cast<int64_t>(parts_.size()), [&](int64_t item, int thread) {
    const ExpertPart& part = parts_[item];
    const float* in[kPanelUses];
    float* to[kPanelUses];
    for (int64_t u = 0; u < part.use_end - part.use_begin; ++u) {
      const int64_t use = uses_[part.use_begin + u];
      in[u] = x.data<float>() + use * inter.value;
      to[u] = answers.data<float>() + use * hidden.value + part.row_begin;
    }
    kernels_->gemm({.matrix = MatrixOf(weight, part.expert),
                    .row_begin = part.row_begin,
                    .row_end = part.row_end,
                    .tokens = part.use_end - part.use_begin,
                    .x = in,
                    .out = to,
                    .bias = BiasOf(bias, part.expert),
                    .scratch = scratch.data<float>() + thread * scratch_floats});
  });

  Tensor out = arena_.Take(DType::kF32, {tokens.value, hidden.value});
  for (int64_t t = 0; t < tokens.value; ++t) {
    float* to = out.data<float>() + t * hidden.value;
    std::fill_n(to, hidden.value, 0.0f);
    for (int64_t slot = 0; slot < top_k.value; ++slot) {
      const int64_t at = t * top_k.value + slot;
      const float scale = routing.weights.data<float>()[at];
      const float* answer = answers.data<float>() + at * hidden.value;
      for (int64_t h = 0; h < hidden.value; ++h) to[h] += scale * answer[h];
    }
  }
  return out;
}

}  // namespace rose
