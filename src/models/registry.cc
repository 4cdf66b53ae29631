// Which model file answers to which architecture. A new model is one more row.
#include <boost/json.hpp>
#include <string>

#include "models/config_reader.h"
#include "models/gpt_oss.h"
#include "models/model.h"
#include "models/qwen3_moe.h"

namespace rose {
namespace {

using ModelFactory = Result<std::unique_ptr<Model>> (*)(std::string_view config_json);

struct ModelRow {
  std::string_view architecture;
  ModelFactory create;
};

constexpr ModelRow kModels[] = {
    {"GptOssForCausalLM", CreateGptOss},
    {"Qwen3MoeForCausalLM", CreateQwen3Moe},
};

// "architectures" holds a list of one name. OpenAI's original/config.json has none; its
// rope_scaling_factor is spelled so by gpt-oss alone.
Result<std::string> ArchitectureOf(const boost::json::object& config) {
  const auto* value = config.if_contains("architectures");
  if (value == nullptr && config.contains("rope_scaling_factor"))
    return std::string(kModels[0].architecture);
  if (value == nullptr) {
    return InvalidArgument(
        "config.json: architectures is missing; is this the folder of a language model?");
  }
  const auto* list = value->if_array();
  if (list == nullptr || list->size() != 1 || !list->front().is_string()) {
    return InvalidArgument("config.json: architectures is ",
                           boost::json::serialize(*value).substr(0, 200),
                           "; expected a list of one name");
  }
  return std::string(list->front().as_string());
}

}  // namespace

Result<std::unique_ptr<Model>> CreateModel(std::string_view config_json) {
  ROSE_ASSIGN_OR_RETURN(const boost::json::object config, ParseConfigObject(config_json));
  ROSE_ASSIGN_OR_RETURN(const std::string architecture, ArchitectureOf(config));
  std::string known;
  for (const ModelRow& row : kModels) {
    if (row.architecture == architecture) return row.create(config_json);
    known += StrCat(known.empty() ? "" : ", ", row.architecture);
  }
  return Unsupported("config.json: architecture \"", architecture.substr(0, 100),
                     "\" is not supported; known: ", known,
                     " (docs/new-model.md says how a new one is added)");
}

}  // namespace rose
