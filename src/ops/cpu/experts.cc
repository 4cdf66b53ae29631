// The mixture of experts: routing, SwiGLU, and the weighted sum. Spec A.6 and A.7.
#include <algorithm>
#include <cmath>

#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/dot.h"
#include "ops/expert_math.h"
#include "ops/host_rows.h"
#include "quant/codec.h"
#include "tensor/expect_shape.h"

namespace rose {
namespace {

// A token's use of an expert: `slot` is its place among the token's experts.
struct Use {
  int64_t token = 0;
  int64_t slot = 0;
};

// The uses of every expert, in the order of tokens.
std::vector<std::vector<Use>> GroupByExpert(const Routing& routing, int64_t experts) {
  std::vector<std::vector<Use>> uses(experts);
  const int64_t top_k = routing.experts.dim(1);
  for (int64_t i = 0; i < routing.experts.elements(); ++i) {
    const int32_t expert = routing.experts.data<int32_t>()[i];
    ROSE_CHECK(expert >= 0 && expert < experts, "expert ", expert, " of ", experts);
    uses[expert].push_back({i / top_k, i % top_k});
  }
  return uses;
}

}  // namespace

Routing CpuOps::Route(const Tensor& x, const Weight& weight, const Weight& bias, int top_k) {
  return RouteRows(Gemm(x, weight, bias), top_k, arena_);
}

Tensor CpuOps::ExpertsGateUp(const Tensor& x, const Routing& routing, const Weight& weight,
                             const Weight& bias, const SwiGlu& activation) {
  Dim tokens{"tokens"}, hidden{"hidden"}, experts{"experts"}, rows{"2*inter"}, top_k{"top_k"};
  ExpectShape("x", x, DType::kF32, {&tokens, &hidden});
  ExpectShape("experts", routing.experts, DType::kI32, {&tokens, &top_k});
  ExpectShape("gate_up", weight, {&experts, &rows, &hidden});
  if (!bias.empty()) ExpectShape("gate_up bias", bias, {&experts, &rows});
  const int64_t inter = rows.value / 2;
  Tensor out = arena_.Take(DType::kF32, {tokens.value, top_k.value, inter});
  std::vector<float> gate_row(hidden.value), up_row(hidden.value);
  const auto uses = GroupByExpert(routing, experts.value);
  for (int64_t e = 0; e < experts.value; ++e) {
    if (uses[e].empty()) continue;
    for (int64_t i = 0; i < inter; ++i) {
      DecodeRow(weight, e, 2 * i, gate_row);
      DecodeRow(weight, e, 2 * i + 1, up_row);
      for (const Use& use : uses[e]) {
        const float* in = x.data<float>() + use.token * hidden.value;
        const float gate =
            Dot(in, gate_row.data(), hidden.value) + BiasAt(bias, e * rows.value + 2 * i);
        const float up =
            Dot(in, up_row.data(), hidden.value) + BiasAt(bias, e * rows.value + 2 * i + 1);
        out.data<float>()[(use.token * top_k.value + use.slot) * inter + i] =
            ApplySwiGlu(gate, up, activation);
      }
    }
  }
  return out;
}

Tensor CpuOps::ExpertsDown(const Tensor& x, const Routing& routing, const Weight& weight,
                           const Weight& bias) {
  Dim tokens{"tokens"}, hidden{"hidden"}, experts{"experts"}, inter{"inter"}, top_k{"top_k"};
  ExpectShape("x", x, DType::kF32, {&tokens, &top_k, &inter});
  ExpectShape("experts", routing.experts, DType::kI32, {&tokens, &top_k});
  ExpectShape("weights", routing.weights, DType::kF32, {&tokens, &top_k});
  ExpectShape("down", weight, {&experts, &hidden, &inter});
  if (!bias.empty()) ExpectShape("down bias", bias, {&experts, &hidden});
  // Every expert's answer apart, then summed by slot: the order of a sum must not depend on which
  // expert has which number.
  std::vector<float> parts(tokens.value * top_k.value * hidden.value);
  std::vector<float> row(inter.value);
  const auto uses = GroupByExpert(routing, experts.value);
  for (int64_t e = 0; e < experts.value; ++e) {
    if (uses[e].empty()) continue;
    for (int64_t h = 0; h < hidden.value; ++h) {
      DecodeRow(weight, e, h, row);
      for (const Use& use : uses[e]) {
        const int64_t at = use.token * top_k.value + use.slot;
        const float* in = x.data<float>() + at * inter.value;
        parts[at * hidden.value + h] =
            Dot(in, row.data(), inter.value) + BiasAt(bias, e * hidden.value + h);
      }
    }
  }
  Tensor out = arena_.Take(DType::kF32, {tokens.value, hidden.value});
  for (int64_t t = 0; t < tokens.value; ++t) {
    float* to = out.data<float>() + t * hidden.value;
    std::fill_n(to, hidden.value, 0.0f);
    for (int64_t slot = 0; slot < top_k.value; ++slot) {
      const int64_t at = t * top_k.value + slot;
      const float scale = routing.weights.data<float>()[at];
      for (int64_t h = 0; h < hidden.value; ++h) to[h] += scale * parts[at * hidden.value + h];
    }
  }
  return out;
}

}  // namespace rose
