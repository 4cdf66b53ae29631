// OpSet: everything a model's forward pass may ask of a device. Three implementations: `cpu` (plain
// loops in f32, the reference), `cpu-fast` (threads and SIMD) and `cuda`.
//
// Rules for all methods. Activations are dense and live in the step arena. They stay valid until
// the second BeginLayer behind them, or the next BeginStep; those of Embed, GatherLogitRows and
// Logits until the next BeginStep. Inputs never alias outputs unless said. Every op takes zero
// rows. A row's result does not depend on the other rows of the step (batch invariance).
// Activations are F32 on the CPU and BF16 on CUDA, where nothing else is said. A wrong shape or
// type is our bug: ROSE_CHECK, naming tensor, axis and both numbers.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "ops/draw_queue.h"
#include "ops/step.h"
#include "tensor/kv_layout.h"
#include "tensor/random_weight.h"
#include "tensor/weight.h"
#include "tensor/weight_source.h"

namespace rose {

// The precision tiers (docs/architecture.md): on the CPU, `exact` is f32 throughout and `fast` may
// round operands to bf16.
enum class Precision { kExact, kFast };

// Rotary embedding in half-split form: dims (i, i + head_dim/2) turn by position * inv_freq[i], and
// cos and sin are both scaled (YaRN's concentration; 1 for plain RoPE). Spec A.5.
struct Rope {
  std::vector<float> inv_freq;  // [head_dim/2]
  float scale = 1.0f;
};

struct AttentionShape {
  int64_t heads = 0;     // query heads
  int64_t kv_heads = 0;  // heads % kv_heads == 0; query head h reads kv head h / (heads/kv_heads)
  int64_t head_dim = 0;
};

// RMS norms of each head's vector of q and of k before its rotation, weights [head_dim]; both empty
// where a model has none.
struct HeadNorms {
  Weight q, k;
  float eps = 0.0f;
};

// gate = min(g, limit), up = clamp(u, -limit, limit), out = gate * sigmoid(alpha * gate) *
// (up + up_offset). As it stands: the plain SwiGLU, silu(g) * u; gpt-oss has 7, 1.702 and 1 (spec
// A.7). Rows of gate_up are interleaved: 2i gate, 2i+1 up.
struct SwiGlu {
  float limit = std::numeric_limits<float>::infinity();
  float alpha = 1.0f;
  float up_offset = 0.0f;
};

// Which experts each row goes to, and with what weight.
struct Routing {
  Tensor experts;  // I32 [tokens, experts_per_token], best first; ties go to the lower index
  Tensor weights;  // F32 [tokens, experts_per_token], softmax over the chosen ones
};

class OpSet {
 public:
  virtual ~OpSet() = default;

  virtual std::string_view name() const = 0;
  // Element type of the KV cache that PagedAttention expects.
  virtual DType kv_dtype() const = 0;

  // Takes a loaded host weight into the form this op set computes with: as it is, repacked, or
  // copied to a device. The result is valid as long as both the op set and `host` live.
  virtual Result<Weight> Adopt(const Weight& host) = 0;

  // Whether this op set takes weights from their files itself, since it computes elsewhere than in
  // the host's memory: with StartFetch, all of a model at once, instead of Adopt.
  virtual bool fetches() const { return false; }

  // Takes memory for all weights of `sources`, and begins to fill it. They may be used at once, but
  // hold zeros where they are not there yet. What Adopt would give for the same numbers, in the
  // order of `sources`, which must outlive FinishFetch or the op set. `progress` may be empty; it
  // is called from a thread with the bytes that are done.
  virtual Result<std::vector<Weight>> StartFetch(
      const std::vector<std::unique_ptr<WeightSource>>& /*sources*/,
      std::function<void(int64_t)> /*progress*/) {
    ROSE_CHECK(false, name(), " adopts weights");
  }
  // Waits until they are there. Fails as WeightSource::Read does; the weights are worthless then.
  virtual Status FinishFetch() { return Status(); }

  // A weight that is made up where this op set computes, without a checkpoint: what Adopt would
  // give for a weight of the recipe's numbers. kUnavailable if it does not fit.
  virtual Result<Weight> Generate(const RandomRecipe& recipe) = 0;

  // Memory for `pages[g]` pages of every group g, zero-filled. kUnavailable if it does not fit.
  virtual Result<KvCache> AllocateKv(const KvLayout& layout, const std::vector<int64_t>& pages) = 0;

  // The same in memory of the host, for pages that leave the device for a while: page-locked where
  // a device copies from it. Elements are those of AllocateKv's cache.
  virtual Result<KvCache> AllocateHostKv(const KvLayout& layout,
                                         const std::vector<int64_t>& pages) = 0;

  // Copies pages between and within a cache and its host tier, K and V of all layers of their
  // group, in the order that PageCopies says. `host` may be empty if nothing goes there.
  virtual void CopyPages(KvCache& cache, KvCache& host, const PageCopies& copies) = 0;

  // Starts a step: forgets the activations of the step before, and takes the inputs of this one to
  // where ops read them. Ops with a `step` want this one; it stays as it is until the step is done.
  virtual void BeginStep(const Step& step) = 0;

  // Forgets the activations that are older than the layer before, so that a step of many rows
  // needs the memory of two layers. For implementations that have to save it.
  virtual void BeginLayer() {}

  // table [vocab, hidden], step.tokens in [0, vocab) -> the residual stream [tokens, hidden], F32
  // on every device.
  virtual Tensor Embed(const Step& step, const Weight& table) = 0;

  // x [tokens, hidden] -> x * rsqrt(mean(x^2) + eps) * weight, in f32. Spec A.3.
  virtual Tensor RmsNorm(const Tensor& x, const Weight& weight, float eps) = 0;

  // residual += delta, both [tokens, hidden], the residual F32; returns RmsNorm(residual).
  virtual Tensor AddRmsNorm(Tensor& residual, const Tensor& delta, const Weight& weight,
                            float eps) = 0;

  // x [tokens, cols], weight [rows, cols], bias [rows] or empty -> x . weight^T + bias
  // [tokens, rows].
  virtual Tensor Gemm(const Tensor& x, const Weight& weight, const Weight& bias) = 0;

  // Norms (if there are any) and turns the q and k parts of qkv [tokens, (heads + 2 kv_heads) *
  // head_dim] in place, and writes k and v of every row to its page.
  virtual void RopeAppendKv(Tensor& qkv, const AttentionShape& shape, const HeadNorms& norms,
                            const Rope& rope, KvLayer& kv, const Step& step) = 0;

  // Causal attention of every row's q over its sequence's pages, kv.window keys at most (0 = all),
  // scores scaled by 1/sqrt(head_dim). `sinks` [heads], if not empty, adds one unscaled logit a
  // head to the softmax's denominator. Spec A.4. -> [tokens, heads * head_dim].
  virtual Tensor PagedAttention(const Tensor& qkv, const AttentionShape& shape, const Weight& sinks,
                                const KvLayer& kv, const Step& step) = 0;

  // Logits x . weight^T + bias (or without, where it is empty), the top_k largest, softmax over
  // those. Spec A.6.
  virtual Routing Route(const Tensor& x, const Weight& weight, const Weight& bias, int top_k) = 0;

  // x [tokens, hidden], weight [experts, 2*inter, hidden], bias [experts, 2*inter] or empty
  // -> SwiGlu of each row's experts [tokens, experts_per_token, inter].
  virtual Tensor ExpertsGateUp(const Tensor& x, const Routing& routing, const Weight& weight,
                               const Weight& bias, const SwiGlu& activation) = 0;

  // x [tokens, experts_per_token, inter], weight [experts, hidden, inter], bias [experts, hidden]
  // or empty -> sum over a row's experts of routing weight * (x . weight^T + bias) [tokens,
  // hidden].
  virtual Tensor ExpertsDown(const Tensor& x, const Routing& routing, const Weight& weight,
                             const Weight& bias) = 0;

  // Rows step.logit_rows of x [tokens, cols] -> [logit_rows, cols], of x's type.
  virtual Tensor GatherLogitRows(const Tensor& x, const Step& step) = 0;

  // x [tokens, hidden], weight [vocab, hidden] -> x . weight^T [tokens, vocab], F32 on every
  // device.
  virtual Tensor Logits(const Tensor& x, const Weight& weight) = 0;

  // Runs `ops`, a whole forward pass of the step that has begun, and returns what it returns. Steps
  // of the same shape must enqueue the same work each time, so that a device may record it and
  // replay it without the host's part: they are steps of one model with the cache that AllocateKv
  // gave last. What is returned is valid until the next BeginStep.
  virtual Tensor Replayed(const Step& /*step*/, const std::function<Tensor()>& ops) {
    return ops();
  }

  // Prepares Replayed for steps of the shape of the one that has begun: records `ops` and runs
  // nothing. A step that needs as much memory must have run. False: steps of this shape are not
  // recorded.
  virtual bool Record(const Step& /*step*/, const std::function<Tensor()>& /*ops*/) {
    return false;
  }

  // Draws on the device, if the op set can; else null, and the host draws from ToHost's logits.
  virtual DrawQueue* draws() { return nullptr; }

  // The same values in host memory, valid until the next BeginStep. Waits for what computes them.
  virtual Tensor ToHost(const Tensor& x) = 0;
};

}  // namespace rose
