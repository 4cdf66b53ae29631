// Which model file answers to which architecture. A new model is one more row.
#include <boost/json.hpp>
#include <string>

#include "models/gpt_oss.h"
#include "models/model.h"

namespace rose {
namespace {

using ModelFactory = Result<std::unique_ptr<Model>> (*)(std::string_view config_json);

struct ModelRow {
  std::string_view architecture;
  ModelFactory create;
};

constexpr ModelRow kModels[] = {
    {"GptOssForCausalLM", CreateGptOss},
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
  boost::system::error_code error;
  const boost::json::value config = boost::json::parse(config_json, error);
  if (error) return InvalidArgument("config.json is not JSON: ", error.message());
  if (!config.is_object()) return InvalidArgument("config.json: expected an object");
  ROSE_ASSIGN_OR_RETURN(const std::string architecture, ArchitectureOf(config.as_object()));
  std::string known;
  for (const ModelRow& row : kModels) {
    if (row.architecture == architecture) return row.create(config_json);
    known += StrCat(known.empty() ? "" : ", ", row.architecture);
  }
  return Unsupported("config.json: architecture \"", architecture.substr(0, 100),
                     "\" is not supported; known: ", known,
                     " (CONTRIBUTING.md says where a new one goes)");
}

}  // namespace rose
