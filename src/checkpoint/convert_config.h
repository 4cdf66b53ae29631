// config.json after a conversion.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "tensor/weight.h"

namespace rose {

// The text of a Hugging Face config.json with the "quantization_config" that belongs to experts in
// `format` (none for bf16). OpenAI's own form, which has no such key, comes back as it is.
// kInvalidArgument if the text is no JSON object.
Result<std::string> ConvertedConfig(std::string_view config_json, const WeightFormat& format);

}  // namespace rose
