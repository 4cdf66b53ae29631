// The configuration of a gpt-oss model, read from the Hugging Face config.json or from OpenAI's
// original/config.json. Spec A.1.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "models/rope_config.h"
#include "ops/ops.h"

namespace rose {

struct GptOssConfig {
  int64_t vocab = 0;
  int64_t hidden = 0;
  int64_t inter = 0;  // of one expert
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t experts = 0;
  int64_t experts_per_token = 0;
  int64_t window = 0;         // keys of a sliding layer, the query's own included
  std::vector<bool> sliding;  // [layers]; false = full attention
  int64_t max_positions = 0;
  float rms_norm_eps = 0;
  SwiGlu activation;  // clamped, spec A.7
  RopeConfig rope;
};

// Every key that is missing, of the wrong kind, out of range, or asks for mathematics that this
// model does not have is kInvalidArgument naming key and value.
Result<GptOssConfig> ParseGptOssConfig(std::string_view config_json);

}  // namespace rose
