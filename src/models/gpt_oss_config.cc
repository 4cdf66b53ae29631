#include "models/gpt_oss_config.h"

#include "models/config_reader.h"

namespace rose {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 24;  // of any single dimension; keeps products in range

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

}  // namespace

Result<GptOssConfig> ParseGptOssConfig(std::string_view config_json) {
  ROSE_ASSIGN_OR_RETURN(const boost::json::object object, ParseConfigObject(config_json));
  GptOssConfig out;
  ConfigReader config(object);
  ReadSizes(config, out);
  config.Require("model_type", "gpt_oss", "another family is another model");
  config.CheckTokenIds(out.vocab);
  config.Require("hidden_act", "silu", "gpt-oss has the clamped SwiGLU");
  config.Require("attention_bias", true, "q, k, v and o have biases");
  config.Require("tie_word_embeddings", false, "the output matrix is its own tensor");
  config.RefuseForeignParts("gpt-oss", {});
  const bool is_original = config.Has("rope_scaling_factor");
  if (is_original) {
    for (const char* key : {"rope_scaling", "rope_parameters"})
      config.Refuse(key, "rope_scaling_factor and its like say it already; keep one of them");
    ReadOriginalRope(config, out);
  } else {
    out.max_positions = config.Integer("max_position_embeddings", 1, int64_t{1} << 31);
  }
  ROSE_RETURN_IF_ERROR(config.status());
  if (!is_original) {
    // NOTE: no silent plain RoPE: a model trained with YaRN would only fail on long prompts.
    if (!config.Has("rope_parameters") && !config.Has("rope_scaling"))
      config.Fault("rope_scaling",
                   "gpt-oss needs it (or rope_parameters); write {\"rope_type\": \"default\"} "
                   "for plain rotary positions");
    ROSE_RETURN_IF_ERROR(config.status());
    ROSE_ASSIGN_OR_RETURN(out.rope, ReadRope(object, out.max_positions));
  }
  ROSE_RETURN_IF_ERROR(ReadLayerTypes(object, out));
  return out;
}

}  // namespace rose
