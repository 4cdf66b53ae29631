// A model of any family and shape with random weights, for tests that compare rose with itself.
#pragma once

#include <boost/json.hpp>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "models/model.h"
#include "quant/codec.h"

namespace rose {

class RandomModel {
 public:
  // Weights of the experts in `format`, all others in bf16, adopted by `ops`, which must outlive
  // it.
  RandomModel(std::string_view config_json, OpSet& ops, const WeightFormat& format = kMxfp4Format)
      : model_(CreateModel(config_json).value()) {
    std::mt19937_64 random(5);
    for (const TensorSpec& spec : model_->tensors()) {
      const bool is_norm = spec.name.ends_with("norm");
      // Sums over a row stay near 1, so that activations neither vanish nor grow.
      const int64_t cols = spec.shape.back();
      const float spread =
          spec.kind == TensorKind::kVector ? 0.3f : 1.0f / std::sqrt(static_cast<float>(cols));
      std::normal_distribution<float> normal(is_norm ? 1.0f : 0.0f, spread);
      weights_.emplace(spec.name,
                       Make(spec, spec.kind == TensorKind::kExperts ? format : kBf16Format,
                            [&] { return normal(random); }));
    }
    for (auto& [name, weight] : weights_) weight = ops.Adopt(weight).value();
    model_->Bind([&](std::string_view name) -> const Weight& {
      return weights_.find(std::string(name))->second;
    });
  }

  const Model& model() const { return *model_; }

 private:
  template <typename Draw>
  Weight Make(const TensorSpec& spec, const WeightFormat& format, Draw draw) {
    const int64_t cols = spec.shape.back();
    int64_t rows = 1;
    for (size_t axis = 0; axis + 1 < spec.shape.size(); ++axis) rows *= spec.shape[axis];
    std::vector<float> values(rows * cols);
    for (float& value : values) value = draw();
    std::vector<uint8_t>& data = bytes_[spec.name];
    std::vector<uint8_t>& scales = bytes_[spec.name + " scales"];
    CodecFor(format).Pack(values, rows, cols, data, scales);
    if (format == kBf16Format)
      return {format, spec.shape, Tensor(data.data(), DType::kBf16, spec.shape), {}};
    ROSE_CHECK(format == kMxfp4Format && spec.shape.size() == 3, format.ToString());
    return {format, spec.shape,
            Tensor(data.data(), DType::kU8, {spec.shape[0], spec.shape[1], cols / 32, 16}),
            Tensor(scales.data(), DType::kU8, {spec.shape[0], spec.shape[1], cols / 32})};
  }

  std::unique_ptr<Model> model_;
  std::map<std::string, std::vector<uint8_t>> bytes_;
  std::map<std::string, Weight> weights_;
};

inline std::string Changed(const char* text, const std::string& changes) {
  boost::json::value parsed = boost::json::parse(text);
  boost::json::object& config = parsed.as_object();
  const boost::json::value changed = boost::json::parse(changes);
  for (const auto& [key, value] : changed.as_object()) {
    if (value == "-") {
      config.erase(key);
    } else {
      config[key] = value;
    }
  }
  return boost::json::serialize(config);
}

// A config.json of a small gpt-oss: 2 layers (sliding, full), hidden 64, 4 heads, 8 experts,
// vocab 96. Members of the object `changes` replace or join those; a member that is the string "-"
// goes.
inline std::string SmallConfig(const std::string& changes = "{}") {
  return Changed(R"({
    "architectures": ["GptOssForCausalLM"], "attention_bias": true, "experts_per_token": 4,
    "num_experts_per_tok": 4, "head_dim": 64, "hidden_act": "silu", "hidden_size": 64,
    "initial_context_length": 4096, "intermediate_size": 64,
    "layer_types": ["sliding_attention", "full_attention"], "max_position_embeddings": 131072,
    "model_type": "gpt_oss", "num_attention_heads": 4, "num_hidden_layers": 2,
    "num_key_value_heads": 2, "num_local_experts": 8, "rms_norm_eps": 1e-05,
    "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0,
      "original_max_position_embeddings": 4096, "rope_type": "yarn", "truncate": false},
    "rope_theta": 150000, "sliding_window": 128, "swiglu_limit": 7.0,
    "tie_word_embeddings": false, "vocab_size": 96})",
                 changes);
}

// The same for Qwen3-MoE: 2 layers, hidden 64, 4 heads, 8 experts, top-4, vocab 96.
inline std::string SmallQwenConfig(const std::string& changes = "{}") {
  return Changed(R"({
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "attention_bias": false,
    "decoder_sparse_step": 1, "head_dim": 64, "hidden_act": "silu", "hidden_size": 64,
    "intermediate_size": 192, "max_position_embeddings": 40960, "max_window_layers": 2,
    "mlp_only_layers": [], "moe_intermediate_size": 64, "norm_topk_prob": true,
    "num_attention_heads": 4, "num_experts": 8, "num_experts_per_tok": 4, "num_hidden_layers": 2,
    "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000.0,
    "sliding_window": null, "tie_word_embeddings": false, "use_sliding_window": false,
    "vocab_size": 96})",
                 changes);
}

// A small config of every family.
inline std::vector<std::string> SmallConfigs() {
  return {SmallConfig(), SmallQwenConfig()};
}

}  // namespace rose
