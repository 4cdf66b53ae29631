// The configuration of a Qwen3-MoE model, read from its Hugging Face config.json.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "models/rope_config.h"

namespace rose {

struct Qwen3MoeConfig {
  int64_t vocab = 0;
  int64_t hidden = 0;
  int64_t inter = 0;  // of one expert
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t experts = 0;
  int64_t experts_per_token = 0;
  int64_t max_positions = 0;
  float rms_norm_eps = 0;
  bool is_tied = false;  // the output matrix is the embedding
  RopeConfig rope;
};

// Every key that is missing, of the wrong kind, out of range, or asks for mathematics that this
// model does not have is kInvalidArgument naming key and value.
Result<Qwen3MoeConfig> ParseQwen3MoeConfig(std::string_view config_json);

}  // namespace rose
