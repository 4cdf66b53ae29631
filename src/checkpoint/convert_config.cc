#include "checkpoint/convert_config.h"

#include <algorithm>

#include "base/json.h"

namespace rose {
namespace {

// Experts alone are quantized; these are the names of the rest.
constexpr char kNotConverted[] =
    R"("modules_to_not_convert":["model.layers.*.self_attn","model.layers.*.mlp.router",)"
    R"("model.embed_tokens","lm_head"])";

std::string QuantizationConfig(const WeightFormat& format) {
  switch (format.packing) {
    case Packing::kBf16:
      return "";
    case Packing::kMxfp4:
      return StrCat("{", kNotConverted, R"(,"quant_method":"mxfp4"})");
    case Packing::kFp8Block:
      return StrCat(R"({"activation_scheme":"dynamic","fmt":"e4m3",)", kNotConverted,
                    R"(,"quant_method":"fp8","weight_block_size":[)", format.block_rows, ",",
                    format.block_cols, "]}");
  }
  ROSE_CHECK(false, "packing ", static_cast<int>(format.packing));
}

}  // namespace

Result<std::string> ConvertedConfig(std::string_view config_json, const WeightFormat& format) {
  ROSE_ASSIGN_OR_RETURN(const JsonValue config, ParseJson(config_json));
  if (config.object() == nullptr) return InvalidArgument("config.json is not a JSON object");
  if (config.Find("architectures") == nullptr) return std::string(config_json);
  std::string text = "{";
  const auto add = [&text](std::string_view key, std::string_view value) {
    text += text.size() > 1 ? ",\n  " : "\n  ";
    AppendJsonString(text, key);
    text += ": ";
    text += value;
  };
  for (const auto& [key, value] : *config.object())
    if (key != "quantization_config") add(key, WriteJson(value));
  const std::string quantization = QuantizationConfig(format);
  if (!quantization.empty()) add("quantization_config", quantization);
  return text + "\n}\n";
}

}  // namespace rose
