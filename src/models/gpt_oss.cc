#include "models/gpt_oss.h"

#include <utility>

#include "models/gpt_oss_config.h"

namespace rose {
namespace {

struct Layer {
  Weight attn_norm;              // [hidden]
  Weight qkv, qkv_bias;          // [(heads + 2 kv_heads) * head_dim, hidden]; rows in order q, k, v
  Weight sinks;                  // [heads]
  Weight o, o_bias;              // [hidden, heads * head_dim]
  Weight mlp_norm;               // [hidden]
  Weight router, router_bias;    // [experts, hidden]
  Weight gate_up, gate_up_bias;  // [experts, 2 * inter, hidden]; row 2i gate, 2i + 1 up
  Weight down, down_bias;        // [experts, hidden, inter]
};

// Full layers first, then sliding ones; a kind without layers has no group.
KvLayout MakeKvLayout(const GptOssConfig& c) {
  KvLayout layout{.groups = {}, .kv_heads = c.kv_heads, .head_dim = c.head_dim};
  for (bool sliding : {false, true}) {
    KvGroup group{.window = sliding ? c.window : 0, .layers = {}};
    for (int64_t i = 0; i < c.layers; ++i) {
      if (c.sliding[i] == sliding) group.layers.push_back(static_cast<int>(i));
    }
    if (!group.layers.empty()) layout.groups.push_back(std::move(group));
  }
  return layout;
}

// One row for each weight; sources are the Hugging Face names, then OpenAI's. Spec B.1 and B.5.
std::vector<TensorSpec> MakeTable(const GptOssConfig& c) {
  using enum TensorKind;
  using enum TensorRole;
  const int64_t q = c.heads * c.head_dim;
  const int64_t kv = c.kv_heads * c.head_dim;
  const int64_t qkv = q + 2 * kv;
  std::vector<TensorSpec> table;
  const auto add = [&](std::string name, TensorKind kind, std::vector<int64_t> shape,
                       std::vector<TensorSource> sources, Split split = Split::kNone,
                       Group group = Group::kNone) -> TensorSpec& {
    table.push_back({std::move(name), kind, std::move(shape), std::move(sources), split, group});
    return table.back();
  };
  add("embedding", kMatrix, {c.vocab, c.hidden},
      {{"model.embed_tokens.weight"}, {"embedding.weight"}}, Split::kRows, Group::kVocab)
      .role = kEmbedding;
  for (int64_t i = 0; i < c.layers; ++i) {
    const std::string n = StrCat("layers.", i, ".");
    const std::string hf = StrCat("model.layers.", i, ".");
    const std::string attn = hf + "self_attn.";
    const std::string mlp = hf + "mlp.";
    const std::string openai = StrCat("block.", i, ".");
    add(n + "attn_norm", kVector, {c.hidden},
        {{hf + "input_layernorm.weight"}, {openai + "attn.norm.scale"}})
        .role = kNorm;
    add(n + "qkv", kMatrix, {qkv, c.hidden},
        {{attn + "q_proj.weight", attn + "k_proj.weight", attn + "v_proj.weight"},
         {openai + "attn.qkv.weight"}},
        Split::kRows, Group::kAttnTp)
        .part_rows = {q, kv, kv};
    add(n + "qkv_bias", kVector, {qkv},
        {{attn + "q_proj.bias", attn + "k_proj.bias", attn + "v_proj.bias"},
         {openai + "attn.qkv.bias"}},
        Split::kRows, Group::kAttnTp)
        .part_rows = {q, kv, kv};
    add(n + "sinks", kVector, {c.heads}, {{attn + "sinks"}, {openai + "attn.sinks"}}, Split::kRows,
        Group::kAttnTp)
        .role = kSinks;
    add(n + "o", kMatrix, {c.hidden, q}, {{attn + "o_proj.weight"}, {openai + "attn.out.weight"}},
        Split::kCols, Group::kAttnTp)
        .role = kAttnOut;
    add(n + "o_bias", kVector, {c.hidden}, {{attn + "o_proj.bias"}, {openai + "attn.out.bias"}});
    add(n + "mlp_norm", kVector, {c.hidden},
        {{hf + "post_attention_layernorm.weight"}, {openai + "mlp.norm.scale"}})
        .role = kNorm;
    add(n + "router", kMatrix, {c.experts, c.hidden},
        {{mlp + "router.weight"}, {openai + "mlp.gate.weight"}})
        .role = kRouter;
    add(n + "router_bias", kVector, {c.experts},
        {{mlp + "router.bias"}, {openai + "mlp.gate.bias"}})
        .role = kRouterBias;
    add(n + "gate_up", kExperts, {c.experts, 2 * c.inter, c.hidden},
        {{mlp + "experts.gate_up_proj"}, {openai + "mlp.mlp1_weight"}}, Split::kExperts,
        Group::kExpert)
        .role = kGateUp;
    add(n + "gate_up_bias", kVector, {c.experts, 2 * c.inter},
        {{mlp + "experts.gate_up_proj_bias"}, {openai + "mlp.mlp1_bias"}}, Split::kExperts,
        Group::kExpert);
    add(n + "down", kExperts, {c.experts, c.hidden, c.inter},
        {{mlp + "experts.down_proj"}, {openai + "mlp.mlp2_weight"}}, Split::kExperts,
        Group::kExpert)
        .role = kDown;
    add(n + "down_bias", kVector, {c.experts, c.hidden},
        {{mlp + "experts.down_proj_bias"}, {openai + "mlp.mlp2_bias"}}, Split::kExperts,
        Group::kExpert);
  }
  add("final_norm", kVector, {c.hidden}, {{"model.norm.weight"}, {"norm.scale"}}).role = kNorm;
  add("lm_head", kMatrix, {c.vocab, c.hidden}, {{"lm_head.weight"}, {"unembedding.weight"}},
      Split::kRows, Group::kVocab)
      .role = kLmHead;
  return table;
}

class GptOss : public Model {
 public:
  explicit GptOss(GptOssConfig config)
      : config_(std::move(config)),
        shape_{config_.heads, config_.kv_heads, config_.head_dim},
        rope_(MakeRope(config_.rope, config_.head_dim)),
        tensors_(MakeTable(config_)) {
    info_ = {.architecture = "GptOssForCausalLM",
             .vocab = config_.vocab,
             .layers = config_.layers,
             .hidden = config_.hidden,
             .max_positions = config_.max_positions,
             .heads = config_.heads,
             .experts_per_token = config_.experts_per_token,
             .kv = MakeKvLayout(config_)};
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
                         .qkv_bias = get("qkv_bias"),
                         .sinks = get("sinks"),
                         .o = get("o"),
                         .o_bias = get("o_bias"),
                         .mlp_norm = get("mlp_norm"),
                         .router = get("router"),
                         .router_bias = get("router_bias"),
                         .gate_up = get("gate_up"),
                         .gate_up_bias = get("gate_up_bias"),
                         .down = get("down"),
                         .down_bias = get("down_bias")});
    }
    final_norm_ = weight("final_norm");
    lm_head_ = weight("lm_head");
  }

  Tensor Forward(OpSet& ops, KvCache& kv, const Step& step) const override {
    ROSE_CHECK(!layers_.empty(), "Forward before Bind");
    ROSE_CHECK_EQ(kv.layers.size(), layers_.size());
    Tensor residual = ops.Embed(step, embedding_);
    Tensor x = ops.RmsNorm(residual, layers_[0].attn_norm, config_.rms_norm_eps);
    for (size_t i = 0; i < layers_.size(); ++i) {
      const Layer& l = layers_[i];
      const bool is_last = i + 1 == layers_.size();
      ops.BeginLayer();
      Tensor qkv = ops.Gemm(x, l.qkv, l.qkv_bias);
      ops.RopeAppendKv(qkv, shape_, /*norms=*/{}, rope_, kv.layers[i], step);
      Tensor attended = ops.PagedAttention(qkv, shape_, l.sinks, kv.layers[i], step);
      if (is_last && step.logit_rows.size() != step.tokens.size()) {
        // After the last keys are written, only rows whose logits are wanted go on.
        attended = ops.GatherLogitRows(attended, step);
        residual = ops.GatherLogitRows(residual, step);
      }
      x = ops.AddRmsNorm(residual, ops.Gemm(attended, l.o, l.o_bias), l.mlp_norm,
                         config_.rms_norm_eps);
      const Routing routing =
          ops.Route(x, l.router, l.router_bias, static_cast<int>(config_.experts_per_token));
      const Tensor inner =
          ops.ExpertsGateUp(x, routing, l.gate_up, l.gate_up_bias, config_.activation);
      const Weight& next_norm = is_last ? final_norm_ : layers_[i + 1].attn_norm;
      x = ops.AddRmsNorm(residual, ops.ExpertsDown(inner, routing, l.down, l.down_bias), next_norm,
                         config_.rms_norm_eps);
    }
    return ops.Logits(x, lm_head_);
  }

 private:
  const GptOssConfig config_;
  const AttentionShape shape_;
  const Rope rope_;
  const std::vector<TensorSpec> tensors_;
  ModelInfo info_;
  Weight embedding_, final_norm_, lm_head_;
  std::vector<Layer> layers_;
};

}  // namespace

Result<std::unique_ptr<Model>> CreateGptOss(std::string_view config_json) {
  ROSE_ASSIGN_OR_RETURN(GptOssConfig config, ParseGptOssConfig(config_json));
  return std::unique_ptr<Model>(std::make_unique<GptOss>(std::move(config)));
}

}  // namespace rose
