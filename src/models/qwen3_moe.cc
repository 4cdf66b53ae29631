#include "models/qwen3_moe.h"

#include <numeric>
#include <utility>

#include "models/qwen3_moe_config.h"

namespace rose {
namespace {

struct Layer {
  Weight attn_norm;  // [hidden]
  Weight qkv;        // [(heads + 2 kv_heads) * head_dim, hidden]; rows in order q, k, v
  HeadNorms norms;   // [head_dim] each
  Weight o;          // [hidden, heads * head_dim]
  Weight mlp_norm;   // [hidden]
  Weight router;     // [experts, hidden]
  Weight gate_up;    // [experts, 2 * inter, hidden]; row 2i gate, 2i + 1 up
  Weight down;       // [experts, hidden, inter]
};

// One row for each weight; sources are the Hugging Face names.
std::vector<TensorSpec> MakeTable(const Qwen3MoeConfig& c) {
  using enum TensorKind;
  using enum TensorRole;
  const int64_t q = c.heads * c.head_dim;
  const int64_t kv = c.kv_heads * c.head_dim;
  const int64_t qkv = q + 2 * kv;
  std::vector<TensorSpec> table;
  const auto add = [&](std::string name, TensorKind kind, std::vector<int64_t> shape,
                       TensorSource source, Split split = Split::kNone,
                       Group group = Group::kNone) -> TensorSpec& {
    table.push_back({std::move(name), kind, std::move(shape), {std::move(source)}, split, group});
    return table.back();
  };
  add("embedding", kMatrix, {c.vocab, c.hidden}, {"model.embed_tokens.weight"}, Split::kRows,
      Group::kVocab)
      .role = kEmbedding;
  for (int64_t i = 0; i < c.layers; ++i) {
    const std::string n = StrCat("layers.", i, ".");
    const std::string layer = StrCat("model.layers.", i, ".");
    const std::string attn = layer + "self_attn.";
    const std::string experts = layer + "mlp.experts.*.";
    add(n + "attn_norm", kVector, {c.hidden}, {layer + "input_layernorm.weight"}).role = kNorm;
    add(n + "qkv", kMatrix, {qkv, c.hidden},
        {attn + "q_proj.weight", attn + "k_proj.weight", attn + "v_proj.weight"}, Split::kRows,
        Group::kAttnTp)
        .part_rows = {q, kv, kv};
    add(n + "q_norm", kVector, {c.head_dim}, {attn + "q_norm.weight"}).role = kNorm;
    add(n + "k_norm", kVector, {c.head_dim}, {attn + "k_norm.weight"}).role = kNorm;
    add(n + "o", kMatrix, {c.hidden, q}, {attn + "o_proj.weight"}, Split::kCols, Group::kAttnTp)
        .role = kAttnOut;
    add(n + "mlp_norm", kVector, {c.hidden}, {layer + "post_attention_layernorm.weight"}).role =
        kNorm;
    add(n + "router", kMatrix, {c.experts, c.hidden}, {layer + "mlp.gate.weight"}).role = kRouter;
    add(n + "gate_up", kExperts, {c.experts, 2 * c.inter, c.hidden},
        {experts + "gate_proj.weight", experts + "up_proj.weight"}, Split::kExperts, Group::kExpert)
        .role = kGateUp;
    add(n + "down", kExperts, {c.experts, c.hidden, c.inter}, {experts + "down_proj.weight"},
        Split::kExperts, Group::kExpert)
        .role = kDown;
  }
  add("final_norm", kVector, {c.hidden}, {"model.norm.weight"}).role = kNorm;
  if (!c.is_tied)
    add("lm_head", kMatrix, {c.vocab, c.hidden}, {"lm_head.weight"}, Split::kRows, Group::kVocab)
        .role = kLmHead;
  return table;
}

class Qwen3Moe : public Model {
 public:
  explicit Qwen3Moe(Qwen3MoeConfig config)
      : config_(std::move(config)),
        shape_{config_.heads, config_.kv_heads, config_.head_dim},
        rope_(MakeRope(config_.rope, config_.head_dim)),
        tensors_(MakeTable(config_)) {
    KvGroup all{.window = 0, .layers = std::vector<int>(config_.layers)};
    std::iota(all.layers.begin(), all.layers.end(), 0);
    info_ = {.architecture = "Qwen3MoeForCausalLM",
             .vocab = config_.vocab,
             .layers = config_.layers,
             .hidden = config_.hidden,
             .max_positions = config_.max_positions,
             .heads = config_.heads,
             .experts_per_token = config_.experts_per_token,
             .kv = {.groups = {std::move(all)},
                    .kv_heads = config_.kv_heads,
                    .head_dim = config_.head_dim}};
  }

  const ModelInfo& info() const override { return info_; }
  const std::vector<TensorSpec>& tensors() const override { return tensors_; }

  void Bind(const WeightLookup& weight) override {
    embedding_ = weight("embedding");
    layers_.clear();
    for (int64_t i = 0; i < config_.layers; ++i) {
      const auto get = [&](const char* name) { return weight(StrCat("layers.", i, ".", name)); };
      layers_.push_back({.attn_norm = get("attn_norm"),
                         .qkv = get("qkv"),
                         .norms = {get("q_norm"), get("k_norm"), config_.rms_norm_eps},
                         .o = get("o"),
                         .mlp_norm = get("mlp_norm"),
                         .router = get("router"),
                         .gate_up = get("gate_up"),
                         .down = get("down")});
    }
    final_norm_ = weight("final_norm");
    lm_head_ = config_.is_tied ? embedding_ : weight("lm_head");
  }

  Tensor Forward(OpSet& ops, KvCache& kv, const Step& step) const override {
    ROSE_CHECK(!layers_.empty(), "Forward before Bind");
    ROSE_CHECK_EQ(kv.layers.size(), layers_.size());
    const Weight none;  // no biases, no sinks
    Tensor residual = ops.Embed(step, embedding_);
    Tensor x = ops.RmsNorm(residual, layers_[0].attn_norm, config_.rms_norm_eps);
    for (size_t i = 0; i < layers_.size(); ++i) {
      const Layer& l = layers_[i];
      const bool is_last = i + 1 == layers_.size();
      ops.BeginLayer();
      Tensor qkv = ops.Gemm(x, l.qkv, none);
      ops.RopeAppendKv(qkv, shape_, l.norms, rope_, kv.layers[i], step);
      Tensor attended = ops.PagedAttention(qkv, shape_, none, kv.layers[i], step);
      if (is_last && step.logit_rows.size() != step.tokens.size()) {
        // After the last keys are written, only rows whose logits are wanted go on.
        attended = ops.GatherLogitRows(attended, step);
        residual = ops.GatherLogitRows(residual, step);
      }
      x = ops.AddRmsNorm(residual, ops.Gemm(attended, l.o, none), l.mlp_norm, config_.rms_norm_eps);
      const Routing routing =
          ops.Route(x, l.router, none, static_cast<int>(config_.experts_per_token));
      const Tensor inner = ops.ExpertsGateUp(x, routing, l.gate_up, none, SwiGlu());
      const Weight& next_norm = is_last ? final_norm_ : layers_[i + 1].attn_norm;
      x = ops.AddRmsNorm(residual, ops.ExpertsDown(inner, routing, l.down, none), next_norm,
                         config_.rms_norm_eps);
    }
    return ops.Logits(x, lm_head_);
  }

 private:
  const Qwen3MoeConfig config_;
  const AttentionShape shape_;
  const Rope rope_;
  const std::vector<TensorSpec> tensors_;
  ModelInfo info_;
  Weight embedding_, final_norm_, lm_head_;
  std::vector<Layer> layers_;
};

}  // namespace

Result<std::unique_ptr<Model>> CreateQwen3Moe(std::string_view config_json) {
  ROSE_ASSIGN_OR_RETURN(Qwen3MoeConfig config, ParseQwen3MoeConfig(config_json));
  return std::unique_ptr<Model>(std::make_unique<Qwen3Moe>(std::move(config)));
}

}  // namespace rose
