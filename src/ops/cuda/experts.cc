// The mixture of experts.
#include "kernels/experts/experts.h"

#include "device/cuda_check.h"
#include "kernels/gemm/gemm.h"
#include "ops/cuda/cuda_op_set.h"
#include "ops/cuda/expert_stack.h"
#include "ops/cuda/weight_view.h"
#include "tensor/expect_shape.h"

namespace rose {
namespace {

// Of experts as Adopt has packed them.
PackedExperts PackedOf(const Weight& weight) {
  ROSE_CHECK_EQ(weight.shape.size(), 3u);
  return {.data = weight.data.data<uint8_t>(),
          .packing = weight.format.packing,
          .experts = static_cast<int>(weight.shape[0]),
          .rows = static_cast<int>(weight.shape[1]),
          .cols = static_cast<int>(weight.shape[2])};
}

}  // namespace

// Packs a stack of experts, in the checkpoint's layout on the device, into one tensor of bytes
// without scales. What weights_ holds from `raw` on is the stack's own memory, and goes.
Result<Weight> CudaOps::Pack(const Weight& stack, size_t raw) {
  ROSE_ASSIGN_OR_RETURN(const PackedExperts shape, PackedShapeOf(stack));
  const int64_t bytes = PackedExpertsBytes(shape);
  ROSE_ASSIGN_OR_RETURN(DeviceMemory packed, AllocateWeight(bytes));
  ROSE_ASSIGN_OR_RETURN(const DeviceMemory largest, AllocateWeight(sizeof(int32_t)));
  CudaCheck(cudaMemsetAsync(largest.get(), 0, sizeof(int32_t), stream_.get()), "packing experts");
  LaunchPackExperts({.shape = shape,
                     .data = stack.data.raw(),
                     .scales = stack.scales.raw(),
                     .woven_scales = stack.format.woven == 2,
                     .out = reinterpret_cast<uint8_t*>(packed.get()),
                     .largest_scale = reinterpret_cast<int32_t*>(largest.get())},
                    stream_.get());
  int32_t largest_scale = 0;
  CudaCheck(cudaMemcpyAsync(&largest_scale, largest.get(), sizeof(int32_t), cudaMemcpyDeviceToHost,
                            stream_.get()),
            "packing experts");
  CudaCheck(cudaStreamSynchronize(stream_.get()), "packing experts");
  ROSE_RETURN_IF_ERROR(CheckLargestScale(stack.format, largest_scale));
  weights_.resize(raw);
  weights_.push_back(std::move(packed));
  return Weight{.format = stack.format,
                .shape = stack.shape,
                .data = Tensor(weights_.back().get(), DType::kU8, {bytes}),
                .scales = {}};
}

// Scratch of one product, taken from the layer's arena.
ExpertsScratch CudaOps::Scratch(const Routing& routing, const PackedExperts& weight) {
  const int64_t bytes =
      ExpertsWorkspaceBytes(routing.experts.dim(0), static_cast<int>(routing.experts.dim(1)),
                            weight.experts, weight.rows);
  return {.workspace = layer().TakeBytes(bytes), .sms = sms_};
}

Routing CudaOps::Route(const Tensor& x, const Weight& weight, const Weight& bias, int top_k) {
  Dim tokens{"tokens"}, hidden{"hidden"}, experts{"experts"};
  ExpectShape("x", x, DType::kBf16, {&tokens, &hidden});
  ExpectShape("router", weight, {&experts, &hidden});
  if (!bias.empty()) ExpectShape("router bias", bias, {&experts});
  const OpScope op(trail_, "route",
                   {{"tokens", tokens.value},
                    {"hidden", hidden.value},
                    {"experts", experts.value},
                    {"top_k", top_k}});
  Routing routing{layer().Take(DType::kI32, {tokens.value, top_k}),
                  layer().Take(DType::kF32, {tokens.value, top_k})};
  const DeviceArena::Mark scratch = layer().mark();
  LaunchRoute({.x = x.data<Bf16>(),
               .weight = VectorOf(weight),
               .bias = VectorOf(bias),
               .logits = layer().Take(DType::kF32, {tokens.value, experts.value}).data<float>(),
               .chosen = routing.experts.data<int32_t>(),
               .weights = routing.weights.data<float>(),
               .x_stride = hidden.value,
               .tokens = tokens.value,
               .hidden = hidden.value,
               .experts = static_cast<int>(experts.value),
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
  const OpScope op(trail_, "experts_gate_up",
                   {{"tokens", tokens.value},
                    {"top_k", top_k.value},
                    {"experts", experts.value},
                    {"rows", rows.value},
                    {"hidden", hidden.value}});
  Tensor out = layer().Take(DType::kBf16, {tokens.value, top_k.value, rows.value / 2});
  const DeviceArena::Mark mark = layer().mark();
  LaunchExpertsGateUp({.x = x.data<Bf16>(),
                       .experts = routing.experts.data<int32_t>(),
                       .weight = PackedOf(weight),
                       .bias = VectorOf(bias),
                       .out = out.data<Bf16>(),
                       .tokens = tokens.value,
                       .experts_per_token = static_cast<int>(top_k.value),
                       .limit = activation.limit,
                       .alpha = activation.alpha,
                       .up_offset = activation.up_offset,
                       .scratch = Scratch(routing, PackedOf(weight))},
                      stream_.get());
  layer().Release(mark);
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
  const OpScope op(trail_, "experts_down",
                   {{"tokens", tokens.value},
                    {"top_k", top_k.value},
                    {"experts", experts.value},
                    {"hidden", hidden.value},
                    {"inter", inter.value}});
  Tensor out = layer().Take(DType::kBf16, {tokens.value, hidden.value});
  const DeviceArena::Mark mark = layer().mark();
  LaunchExpertsDown({.x = x.data<Bf16>(),
                     .experts = routing.experts.data<int32_t>(),
                     .weights = routing.weights.data<float>(),
                     .weight = PackedOf(weight),
                     .bias = VectorOf(bias),
                     .out = out.data<Bf16>(),
                     .tokens = tokens.value,
                     .experts_per_token = static_cast<int>(top_k.value),
                     .scratch = Scratch(routing, PackedOf(weight))},
                    stream_.get());
  layer().Release(mark);
  return out;
}

}  // namespace rose
