// OpenAI's gpt-oss: pre-norm decoder, attention with sinks and alternating windows, mixture of
// experts with a clamped SwiGLU. Spec A.
#pragma once

#include <memory>
#include <string_view>

#include "models/model.h"

namespace rose {

Result<std::unique_ptr<Model>> CreateGptOss(std::string_view config_json);

}  // namespace rose
