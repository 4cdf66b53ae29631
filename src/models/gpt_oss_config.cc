#include "models/gpt_oss_config.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "models/config_reader.h"

namespace rose {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 24;  // of any single dimension; keeps products in range

// Keys of other model families that change the mathematics.
constexpr const char* kForeignKeys[] = {"attn_logit_softcapping",
                                        "final_logit_softcapping",
                                        "query_pre_attn_scalar",
                                        "use_qk_norm",
                                        "qk_norm",
                                        "n_shared_experts",
                                        "num_shared_experts",
                                        "shared_expert_intermediate_size",
                                        "moe_intermediate_size",
                                        "first_k_dense_replace",
                                        "decoder_sparse_step",
                                        "mlp_only_layers",
                                        "n_group",
                                        "topk_group",
                                        "scoring_func",
                                        "routed_scaling_factor",
                                        "attention_multiplier",
                                        "residual_multiplier",
                                        "embedding_multiplier",
                                        "logits_scaling",
                                        "rope_local_base_freq",
                                        "num_nextn_predict_layers"};

constexpr const char* kRopeKeys[] = {"rope_type",        "type",
                                     "rope_theta",       "factor",
                                     "beta_fast",        "beta_slow",
                                     "truncate",         "original_max_position_embeddings",
                                     "attention_factor", "partial_rotary_factor"};

// What the lengths say of one another.
void CheckRopeLengths(ConfigReader& top, const GptOssConfig& config) {
  const RopeConfig& r = config.rope;
  if (top.Has("initial_context_length") &&
      top.Integer("initial_context_length", 1, kMaxSize) != r.original_context) {
    top.Fault("initial_context_length",
              StrCat("but original_max_position_embeddings is ", r.original_context));
  }
  const double reach = static_cast<double>(r.original_context) * r.factor;
  if (static_cast<double>(config.max_positions) > reach) {
    top.Fault("max_position_embeddings",
              StrCat("but original_max_position_embeddings times factor is ", reach));
  }
}

// rope_scaling + rope_theta, or rope_parameters, which holds both.
Status ReadHfRope(const boost::json::object& config, GptOssConfig& out) {
  ConfigReader top(config);
  const char* name = top.Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (top.Has("rope_parameters") && top.Has("rope_scaling") &&
      config.at("rope_parameters") != config.at("rope_scaling")) {
    top.Fault("rope_scaling", "but rope_parameters says something else; keep one of them");
    return top.status();
  }
  // NOTE: no silent plain RoPE: a model trained with YaRN would only fail on long prompts.
  if (!top.Has(name)) {
    top.Fault(name,
              "gpt-oss needs it (or rope_parameters); write {\"rope_type\": \"default\"} "
              "for plain rotary positions");
    return top.status();
  }
  const auto* object = config.at(name).if_object();
  if (object == nullptr) {
    top.Fault(name, "expected an object");
    return top.status();
  }
  ConfigReader rope(*object, StrCat(name, "."));
  for (const auto& [key, value] : *object) {
    const bool known = std::any_of(std::begin(kRopeKeys), std::end(kRopeKeys),
                                   [&](const char* k) { return key == k; });
    if (!known) rope.Refuse(key, "this key is not known here and may change the positions");
  }
  const std::string type = rope.Text(rope.Has("rope_type") ? "rope_type" : "type", "");
  if (type != "yarn" && type != "default") {
    rope.Fault(rope.Has("type") ? "type" : "rope_type", "expected \"yarn\" or \"default\"");
  }
  rope.Refuse("attention_factor", "only YaRN's own factor, 0.1 ln(factor) + 1, is supported");
  rope.Require("partial_rotary_factor", 1.0, "all dimensions of a head turn");
  RopeConfig& r = out.rope;
  r.theta = rope.Has("rope_theta") ? rope.Positive("rope_theta") : top.Positive("rope_theta");
  if (rope.Has("rope_type")) rope.Require("type", boost::json::value(type), "rope_type says so");
  if (rope.Has("rope_theta") && top.Has("rope_theta") && top.Positive("rope_theta") != r.theta)
    top.Fault("rope_theta", StrCat("but ", name, ".rope_theta is ", r.theta));
  if (type == "default") {
    for (const char* key : {"factor", "beta_fast", "beta_slow"})
      rope.Refuse(key, "the type \"default\" has none; is it \"yarn\"?");
  }
  if (type == "yarn") {
    r.factor = rope.Positive("factor");
    r.beta_fast = rope.Positive("beta_fast", 32);
    r.beta_slow = rope.Positive("beta_slow", 1);
    r.original_context = rope.Integer("original_max_position_embeddings", 1, kMaxSize);
    r.truncate = rope.Flag("truncate", true);
  }
  if (r.factor < 1) rope.Fault("factor", "expected a number of at least 1");
  if (type == "yarn" && rope.status().ok()) CheckRopeLengths(top, out);
  if (r.beta_fast <= r.beta_slow) rope.Fault("beta_fast", "expected more than beta_slow");
  if (r.theta <= 1) top.Fault("rope_theta", "expected a number above 1");
  return rope.status().ok() ? top.status() : rope.status();
}

void ReadOriginalRope(ConfigReader& config, GptOssConfig& out) {
  out.rope.theta = config.Positive("rope_theta");
  out.rope.factor = config.Positive("rope_scaling_factor");
  out.rope.beta_fast = config.Positive("rope_ntk_beta");
  out.rope.beta_slow = config.Positive("rope_ntk_alpha");
  out.rope.original_context = config.Integer("initial_context_length", 1, kMaxSize);
  if (out.rope.theta <= 1) config.Fault("rope_theta", "expected a number above 1");
  if (out.rope.factor < 1) config.Fault("rope_scaling_factor", "expected at least 1");
  if (out.rope.beta_fast <= out.rope.beta_slow) {
    config.Fault("rope_ntk_beta", "expected more than rope_ntk_alpha");
  }
  out.max_positions =
      static_cast<int64_t>(static_cast<double>(out.rope.original_context) * out.rope.factor);
}

// Absent: alternating, sliding first, as both published sizes are.
Status ReadLayerTypes(const boost::json::object& config, GptOssConfig& out) {
  ConfigReader reader(config);
  out.sliding.resize(out.layers);
  for (int64_t i = 0; i < out.layers; ++i) out.sliding[i] = i % 2 == 0;
  if (!reader.Has("layer_types")) return {};
  const auto* types = config.at("layer_types").if_array();
  if (types == nullptr || static_cast<int64_t>(types->size()) != out.layers) {
    reader.Fault("layer_types", StrCat("expected a list of ", out.layers,
                                       " entries, one for each of num_hidden_layers"));
    return reader.status();
  }
  for (int64_t i = 0; i < out.layers; ++i) {
    const boost::json::value& type = (*types)[i];
    out.sliding[i] = type == "sliding_attention";
    if (!out.sliding[i] && type != "full_attention") {
      return InvalidArgument("config.json: layer_types[", i, "] is ", boost::json::serialize(type),
                             "; expected \"sliding_attention\" or \"full_attention\"");
    }
  }
  return {};
}

void ReadSizes(ConfigReader& config, GptOssConfig& out) {
  out.vocab = config.Integer("vocab_size", 1, kMaxSize);
  out.hidden = config.Integer("hidden_size", 1, kMaxSize);
  out.inter = config.Integer("intermediate_size", 1, kMaxSize);
  out.layers = config.Integer("num_hidden_layers", 1, 4096);
  out.heads = config.Integer("num_attention_heads", 1, 65536);
  out.kv_heads = config.Integer("num_key_value_heads", 1, 65536);
  out.head_dim = config.Integer("head_dim", 2, 1024);
  out.experts = config.Integer("num_local_experts", "num_experts", 1, 65536);
  out.experts_per_token =
      config.Integer("num_experts_per_tok", "experts_per_token", 1, out.experts);
  out.window = config.Integer("sliding_window", 1, kMaxSize);
  out.activation.up_offset = 1.0f;
  out.activation.limit = static_cast<float>(config.Positive("swiglu_limit"));
  out.activation.alpha = static_cast<float>(config.Positive("swiglu_alpha", 1.702));
  out.rms_norm_eps = static_cast<float>(config.Positive("rms_norm_eps", 1e-5));
  if (out.heads % out.kv_heads != 0) {
    config.Fault("num_attention_heads",
                 StrCat("expected a multiple of num_key_value_heads, ", out.kv_heads));
  }
  if (out.head_dim % 2 != 0) {
    config.Fault("head_dim", "expected an even number: rotary dimensions come in pairs");
  }
}

// Ids of single tokens, or lists of them. They decide nothing here, but one that the model does not
// have says that this config belongs to another.
void CheckTokenIds(const boost::json::object& object, int64_t vocab, ConfigReader& config) {
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    if (!config.Has(key)) continue;
    const boost::json::value& value = object.at(key);
    const boost::json::array one = {value};
    for (const boost::json::value& id : value.is_array() ? value.get_array() : one) {
      const bool is_id = id.is_int64() && id.get_int64() >= 0 && id.get_int64() < vocab;
      if (!is_id) config.Fault(key, StrCat("expected token ids from 0 to ", vocab - 1));
    }
  }
}

}  // namespace

Result<GptOssConfig> ParseGptOssConfig(std::string_view config_json) {
  boost::system::error_code error;
  const boost::json::value parsed = boost::json::parse(config_json, error);
  if (error) return InvalidArgument("config.json is not JSON: ", error.message());
  const auto* object = parsed.if_object();
  if (object == nullptr) return InvalidArgument("config.json: expected an object");

  GptOssConfig out;
  ConfigReader config(*object);
  ReadSizes(config, out);
  config.Require("model_type", "gpt_oss", "another family is another model");
  CheckTokenIds(*object, out.vocab, config);
  config.Require("hidden_act", "silu", "gpt-oss has the clamped SwiGLU");
  config.Require("attention_bias", true, "q, k, v and o have biases");
  config.Require("tie_word_embeddings", false, "the output matrix is its own tensor");
  for (const char* key : kForeignKeys) config.Refuse(key, "gpt-oss has no such part");
  const bool is_original = config.Has("rope_scaling_factor");
  if (is_original) {
    for (const char* key : {"rope_scaling", "rope_parameters"})
      config.Refuse(key, "rope_scaling_factor and its like say it already; keep one of them");
    ReadOriginalRope(config, out);
  } else {
    out.max_positions = config.Integer("max_position_embeddings", 1, int64_t{1} << 31);
  }
  ROSE_RETURN_IF_ERROR(config.status());
  if (!is_original) ROSE_RETURN_IF_ERROR(ReadHfRope(*object, out));
  ROSE_RETURN_IF_ERROR(ReadLayerTypes(*object, out));
  return out;
}

Rope MakeRope(const RopeConfig& config, int64_t head_dim) {
  const int64_t half = head_dim / 2;
  const double dims = static_cast<double>(head_dim);
  // The dimension whose wave makes `turns` turns over the original context.
  const auto dimension = [&](double turns) {
    return dims / 2 *
           std::log(static_cast<double>(config.original_context) / (turns * 2 * std::numbers::pi)) /
           std::log(config.theta);
  };
  const bool is_yarn = config.factor > 1;
  double low = is_yarn ? dimension(config.beta_fast) : 0;
  double high = is_yarn ? dimension(config.beta_slow) : 0;
  if (config.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dims - 1);
  if (low == high) high += 0.001;  // as the reference: a step, not a division by zero

  Rope rope;
  rope.scale = is_yarn ? static_cast<float>(0.1 * std::log(config.factor) + 1) : 1.0f;
  for (int64_t i = 0; i < half; ++i) {
    const double plain = std::pow(config.theta, -2.0 * static_cast<double>(i) / dims);
    const double ramp =
        is_yarn ? std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0) : 0.0;
    rope.inv_freq.push_back(static_cast<float>(plain / config.factor * ramp + plain * (1 - ramp)));
  }
  return rope;
}

}  // namespace rose
