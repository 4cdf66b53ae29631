// The mixture of experts.
#include "kernels/naive/naive.h"
#include "ops/cuda/cuda_op_set.h"
#include "ops/cuda/weight_view.h"
#include "tensor/expect_shape.h"

namespace rose {

Routing CudaOps::Route(const Tensor& x, const Weight& weight, const Weight& bias, int top_k) {
  Dim tokens{"tokens"}, hidden{"hidden"}, experts{"experts"};
  ExpectShape("x", x, DType::kBf16, {&tokens, &hidden});
  ExpectShape("router", weight, {&experts, &hidden});
  if (!bias.empty()) ExpectShape("router bias", bias, {&experts});
  Routing routing{layer().Take(DType::kI32, {tokens.value, top_k}),
                  layer().Take(DType::kF32, {tokens.value, top_k})};
  const DeviceArena::Mark scratch = layer().mark();
  float* logits = layer().Take(DType::kF32, {tokens.value, experts.value}).data<float>();
  LaunchNaiveGemm({.x = x.data<Bf16>(),
                   .weight = ViewOf(weight),
                   .bias = VectorOf(bias),
                   .out_f32 = logits,
                   .tokens = tokens.value},
                  stream_.get());
  LaunchNaiveRoute({.logits = logits,
                    .experts = routing.experts.data<int32_t>(),
                    .weights = routing.weights.data<float>(),
                    .tokens = tokens.value,
                    .expert_count = static_cast<int>(experts.value),
                    .top_k = top_k},
                   stream_.get());
  layer().Release(scratch);
  return routing;
}

Tensor CudaOps::ExpertsGateUp(const Tensor& x, const Routing& routing, const Weight& weight,
                              const Weight& bias, const SwiGlu& activation) {
  Dim tokens{"tokens"}, hidden{"hidden"}, experts{"experts"}, rows{"2*inter"}, top_k{"top_k"};
  ExpectShape("x", x, DType::kBf16, {&tokens, &hidden});
  ExpectShape("experts", routing.experts, DType::kI32, {&tokens, &top_k});
  ExpectShape("gate_up", weight, {&experts, &rows, &hidden});
  if (!bias.empty()) ExpectShape("gate_up bias", bias, {&experts, &rows});
  Tensor out = layer().Take(DType::kBf16, {tokens.value, top_k.value, rows.value / 2});
  LaunchNaiveGateUp({.x = x.data<Bf16>(),
                     .experts = routing.experts.data<int32_t>(),
                     .weight = ViewOf(weight),
                     .bias = VectorOf(bias),
                     .out = out.data<Bf16>(),
                     .tokens = tokens.value,
                     .top_k = static_cast<int>(top_k.value),
                     .limit = activation.limit,
                     .alpha = activation.alpha,
                     .up_offset = activation.up_offset},
                    stream_.get());
  return out;
}

Tensor CudaOps::ExpertsDown(const Tensor& x, const Routing& routing, const Weight& weight,
                            const Weight& bias) {
  Dim tokens{"tokens"}, hidden{"hidden"}, experts{"experts"}, inter{"inter"}, top_k{"top_k"};
  ExpectShape("x", x, DType::kBf16, {&tokens, &top_k, &inter});
  ExpectShape("experts", routing.experts, DType::kI32, {&tokens, &top_k});
  ExpectShape("weights", routing.weights, DType::kF32, {&tokens, &top_k});
  ExpectShape("down", weight, {&experts, &hidden, &inter});
  if (!bias.empty()) ExpectShape("down bias", bias, {&experts, &hidden});
  Tensor out = layer().Take(DType::kBf16, {tokens.value, hidden.value});
  LaunchNaiveDown({.x = x.data<Bf16>(),
                   .experts = routing.experts.data<int32_t>(),
                   .routing = routing.weights.data<float>(),
                   .weight = ViewOf(weight),
                   .bias = VectorOf(bias),
                   .out = out.data<Bf16>(),
                   .tokens = tokens.value,
                   .top_k = static_cast<int>(top_k.value)},
                  stream_.get());
  return out;
}

}  // namespace rose
