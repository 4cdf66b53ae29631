// config.json after a conversion.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tensor/weight.h"

namespace rose {

// The text of a Hugging Face config.json with the "quantization_config" that belongs to weights in
// `format` (none for bf16), all but those of `kept` (names of modules, '*' for any number).
// OpenAI's own form, which has no such key, comes back as it is. kInvalidArgument if the text is no
// JSON object.
Result<std::string> ConvertedConfig(std::string_view config_json, const WeightFormat& format,
                                    const std::vector<std::string>& kept);

// The module of a tensor as `kept` has it: "model.layers.3.mlp.gate.weight" ->
// "model.layers.*.mlp.gate".
std::string ModuleOf(std::string_view stem);

}  // namespace rose
