// Qwen3-MoE (as Qwen3-30B-A3B): pre-norm decoder, norms on each head of q and k, full attention
// without sinks, mixture of experts with a plain SwiGLU and no biases.
#pragma once

#include <memory>
#include <string_view>

#include "models/model.h"

namespace rose {

Result<std::unique_ptr<Model>> CreateQwen3Moe(std::string_view config_json);

}  // namespace rose
