#include "checkpoint/convert_config.h"

#include <algorithm>

#include "base/json.h"

namespace rose {
namespace {

// "modules_to_not_convert":["a","b"]
std::string NotConverted(const std::vector<std::string>& kept) {
  std::string text = "\"modules_to_not_convert\":[";
  for (const std::string& name : kept) {
    if (text.back() != '[') text += ",";
    AppendJsonString(text, name);
  }
  return text + "]";
}

std::string QuantizationConfig(const WeightFormat& format, const std::vector<std::string>& kept) {
  switch (format.packing) {
    case Packing::kBf16:
      return "";
    case Packing::kMxfp4:
      return StrCat("{", NotConverted(kept), R"(,"quant_method":"mxfp4"})");
    case Packing::kFp8Block:
      return StrCat(R"({"activation_scheme":"dynamic","fmt":"e4m3",)", NotConverted(kept),
                    R"(,"quant_method":"fp8","weight_block_size":[)", format.block_rows, ",",
                    format.block_cols, "]}");
  }
  ROSE_CHECK(false, "packing ", static_cast<int>(format.packing));
}

}  // namespace

std::string ModuleOf(std::string_view stem) {
  constexpr std::string_view kEnd = ".weight";
  if (stem.ends_with(kEnd)) stem.remove_suffix(kEnd.size());
  std::string module;
  bool in_number = false;
  for (size_t i = 0; i < stem.size(); ++i) {
    const bool is_digit = stem[i] >= '0' && stem[i] <= '9';
    if (is_digit && (in_number || module.ends_with('.'))) {
      if (!in_number) module += '*';
      in_number = true;
      continue;
    }
    in_number = false;
    module += stem[i];
  }
  return module;
}

Result<std::string> ConvertedConfig(std::string_view config_json, const WeightFormat& format,
                                    const std::vector<std::string>& kept) {
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
  const std::string quantization = QuantizationConfig(format, kept);
  if (!quantization.empty()) add("quantization_config", quantization);
  return text + "\n}\n";
}

}  // namespace rose
