// Rotary embedding, the paged KV cache, and attention over it.
#include "kernels/attention/attention.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "device/cuda_check.h"
#include "kernels/rope/rope.h"
#include "ops/cuda/cuda_op_set.h"
#include "ops/cuda/weight_view.h"
#include "ops/head_norms.h"
#include "tensor/expect_shape.h"

namespace rose {
namespace {

void CheckQkv(const Tensor& qkv, const AttentionShape& shape, const KvLayer& kv,
              const DeviceStep& step) {
  ROSE_CHECK_EQ(shape.heads % shape.kv_heads, 0);
  Dim tokens{"tokens", step.rows};
  Dim width{"(heads + 2 kv_heads) * head_dim", (shape.heads + 2 * shape.kv_heads) * shape.head_dim};
  ExpectShape("qkv", qkv, DType::kBf16, {&tokens, &width});
  Dim pages{"pages"}, kv_heads{"kv_heads", shape.kv_heads},
      page_size{"page size", KvLayout::kPageSize}, head_dim{"head_dim", shape.head_dim};
  ExpectShape("keys", kv.keys, DType::kBf16, {&pages, &kv_heads, &page_size, &head_dim});
  ExpectShape("values", kv.values, DType::kBf16, {&pages, &kv_heads, &page_size, &head_dim});
}

bool IsDecode(const Step& step) {
  return std::all_of(step.seqs.begin(), step.seqs.end(),
                     [](const StepSeq& seq) { return seq.rows <= kDecodeRows; });
}

// Sizes of a workspace: powers of two, so that it seldom grows.
int64_t Capacity(int64_t needed) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(needed, 64))));
}

}  // namespace

// Gives the parameters the workspace of their KV group, whose list of work the step's first layer
// of the group makes.
AttentionParams CudaOps::InWorkspace(AttentionParams params) {
  AttentionWorkspace& own = attention_[params.group];
  const AttentionLimits& limits = params.limits;
  const bool fits = own.limits.rows >= params.step.rows &&
                    own.limits.seqs >= params.step.seq_count && own.limits.heads == limits.heads &&
                    own.limits.kv_heads == limits.kv_heads &&
                    own.limits.head_dim == limits.head_dim && own.limits.window == limits.window;
  if (!fits) {
    CudaCheck(cudaStreamSynchronize(stream_.get()), "waiting for a step");
    own.limits = limits;
    own.limits.rows = Capacity(params.step.rows);
    own.limits.seqs = Capacity(params.step.seq_count);
    const int64_t bytes = AttentionWorkspaceBytes(own.limits);
    own.memory = ValueOrThrow(AllocateDevice(bytes, "the workspace of attention", kStepAdvice));
    CudaCheck(cudaMemsetAsync(own.memory.get(), 0, bytes, stream_.get()), "zeroing a workspace");
    own.is_planned = false;
  }
  params.limits = own.limits;
  params.workspace = own.memory.get();
  params.is_planned = std::exchange(own.is_planned, true);
  return params;
}

void CudaOps::CheckStep(const Step& step) const {
  const DeviceStep& now = inputs_.on_device();
  ROSE_CHECK(
      now.rows == std::ssize(step.tokens) && now.logit_row_count == std::ssize(step.logit_rows),
      "a step of ", step.tokens.size(), " rows and ", step.logit_rows.size(),
      " logits, but BeginStep had ", now.rows, " and ", now.logit_row_count);
}

// The frequencies in device memory. A model has one Rope, or two.
const float* CudaOps::InvFreq(const Rope& rope) {
  for (const UploadedRope& uploaded : ropes_) {
    if (uploaded.inv_freq == rope.inv_freq) {
      return reinterpret_cast<const float*>(uploaded.on_device.get());
    }
  }
  const int64_t bytes = std::ssize(rope.inv_freq) * static_cast<int64_t>(sizeof(float));
  DeviceMemory memory =
      ValueOrThrow(AllocateDevice(bytes, "rotary frequencies", "free some of it"));
  CudaCheck(cudaMemcpyAsync(memory.get(), rope.inv_freq.data(), bytes, cudaMemcpyHostToDevice,
                            stream_.get()),
            "uploading rotary frequencies");
  ropes_.push_back({rope.inv_freq, std::move(memory)});
  return reinterpret_cast<const float*>(ropes_.back().on_device.get());
}

void CudaOps::RopeAppendKv(Tensor& qkv, const AttentionShape& shape, const HeadNorms& norms,
                           const Rope& rope, KvLayer& kv, const Step& step) {
  CheckStep(step);
  CheckHeadNorms(norms, shape.head_dim);
  CheckQkv(qkv, shape, kv, inputs_.on_device());
  ROSE_CHECK_EQ(std::ssize(rope.inv_freq) * 2, shape.head_dim);
  for (const StepSeq& seq : step.seqs) {
    for (int64_t p = seq.start / KvLayout::kPageSize;
         p <= (seq.start + seq.rows - 1) / KvLayout::kPageSize; ++p) {
      const int32_t page = seq.pages[kv.group][p];
      ROSE_CHECK(page >= 0 && page < kv.keys.dim(0), "page ", page, " of ", kv.keys.dim(0));
    }
  }
  const OpScope op(trail_, "rope_append_kv",
                   {{"tokens", qkv.dim(0)},
                    {"heads", shape.heads},
                    {"kv_heads", shape.kv_heads},
                    {"head_dim", shape.head_dim}});
  LaunchRopeAppendKv({.qkv = qkv.data<Bf16>(),
                      .inv_freq = InvFreq(rope),
                      .rope_scale = rope.scale,
                      .q_norm = VectorOf(norms.q),
                      .k_norm = VectorOf(norms.k),
                      .norm_eps = norms.eps,
                      .keys = kv.keys.data<Bf16>(),
                      .values = kv.values.data<Bf16>(),
                      .step = inputs_.on_device(),
                      .group = kv.group,
                      .heads = static_cast<int>(shape.heads),
                      .kv_heads = static_cast<int>(shape.kv_heads),
                      .head_dim = static_cast<int>(shape.head_dim)},
                     stream_.get());
}

Tensor CudaOps::PagedAttention(const Tensor& qkv, const AttentionShape& shape, const Weight& sinks,
                               const KvLayer& kv, const Step& step) {
  CheckStep(step);
  CheckQkv(qkv, shape, kv, inputs_.on_device());
  Dim heads{"heads", shape.heads};
  if (!sinks.empty()) ExpectShape("sinks", sinks, {&heads});
  const OpScope op(trail_, "attention",
                   {{"tokens", qkv.dim(0)},
                    {"seqs", std::ssize(step.seqs)},
                    {"heads", shape.heads},
                    {"head_dim", shape.head_dim},
                    {"window", kv.window}});
  Tensor out = layer().Take(DType::kBf16, {qkv.dim(0), shape.heads * shape.head_dim});
  LaunchPagedAttention(InWorkspace({.qkv = qkv.data<Bf16>(),
                                    .keys = kv.keys.data<Bf16>(),
                                    .values = kv.values.data<Bf16>(),
                                    .sinks = VectorOf(sinks),
                                    .out = out.data<Bf16>(),
                                    .step = inputs_.on_device(),
                                    .limits = {.heads = shape.heads,
                                               .kv_heads = shape.kv_heads,
                                               .head_dim = shape.head_dim,
                                               .window = kv.window},
                                    .qkv_stride = qkv.dim(1),
                                    .group = kv.group,
                                    .is_decode = IsDecode(step)}),
                       stream_.get());
  return out;
}

}  // namespace rose
