#include "models/qwen3_moe_config.h"

#include "models/config_reader.h"

namespace rose {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 24;  // of any single dimension; keeps products in range

void ReadSizes(ConfigReader& config, Qwen3MoeConfig& out) {
  out.vocab = config.Integer("vocab_size", 1, kMaxSize);
  out.hidden = config.Integer("hidden_size", 1, kMaxSize);
  out.inter = config.Integer("moe_intermediate_size", 1, kMaxSize);
  out.layers = config.Integer("num_hidden_layers", 1, 4096);
  out.heads = config.Integer("num_attention_heads", 1, 65536);
  out.kv_heads = config.Integer("num_key_value_heads", 1, 65536);
  out.head_dim = config.Integer("head_dim", 2, 1024);
  out.experts = config.Integer("num_experts", 1, 65536);
  out.experts_per_token = config.Integer("num_experts_per_tok", 1, out.experts);
  out.max_positions = config.Integer("max_position_embeddings", 1, int64_t{1} << 31);
  out.rms_norm_eps = static_cast<float>(config.Positive("rms_norm_eps"));
  out.is_tied = config.Flag("tie_word_embeddings", false);
  if (out.heads % out.kv_heads != 0) {
    config.Fault("num_attention_heads",
                 StrCat("expected a multiple of num_key_value_heads, ", out.kv_heads));
  }
  if (out.head_dim % 2 != 0) {
    config.Fault("head_dim", "expected an even number: rotary dimensions come in pairs");
  }
}

// What would change the mathematics: absent, or as the published models have it.
void CheckParts(const boost::json::object& object, ConfigReader& config) {
  config.Require("model_type", "qwen3_moe", "another family is another model");
  config.Require("hidden_act", "silu", "experts have the plain SwiGLU");
  config.Require("attention_bias", false, "q, k, v and o have no biases");
  config.Require("use_sliding_window", false, "every layer sees all keys");
  config.Require("decoder_sparse_step", 1, "every layer is a mixture of experts");
  config.Require("mlp_only_layers", boost::json::array(), "every layer is a mixture of experts");
  // NOTE: transformers takes an absent one for false.
  if (!config.Flag("norm_topk_prob", false)) {
    config.Fault("norm_topk_prob",
                 "only true is supported: the chosen experts' weights add up to 1");
  }
  config.RefuseForeignParts("Qwen3-MoE",
                            {"moe_intermediate_size", "decoder_sparse_step", "mlp_only_layers"});
  if (!config.Has("layer_types")) return;
  const auto* types = object.at("layer_types").if_array();
  for (const boost::json::value& type : types != nullptr ? *types : boost::json::array{nullptr}) {
    if (type != "full_attention") {
      config.Fault("layer_types", "only \"full_attention\" is supported for every layer");
    }
  }
}

// Tensors say themselves how they are stored, but not how large a block of scales is.
Status CheckQuantization(const boost::json::object& object) {
  ConfigReader config(object);
  if (!config.Has("quantization_config")) return {};
  const auto* quantization = object.at("quantization_config").if_object();
  if (quantization == nullptr) {
    config.Fault("quantization_config", "expected an object");
    return config.status();
  }
  ConfigReader reader(*quantization, "quantization_config.");
  reader.Require("weight_block_size", boost::json::array{128, 128},
                 "one scale for each block of so many rows and columns");
  return reader.status();
}

}  // namespace

Result<Qwen3MoeConfig> ParseQwen3MoeConfig(std::string_view config_json) {
  ROSE_ASSIGN_OR_RETURN(const boost::json::object object, ParseConfigObject(config_json));
  Qwen3MoeConfig out;
  ConfigReader config(object);
  ReadSizes(config, out);
  config.CheckTokenIds(out.vocab);
  CheckParts(object, config);
  ROSE_RETURN_IF_ERROR(config.status());
  ROSE_RETURN_IF_ERROR(CheckQuantization(object));
  ROSE_ASSIGN_OR_RETURN(out.rope, ReadRope(object, out.max_positions));
  return out;
}

}  // namespace rose
