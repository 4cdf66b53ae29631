#include "api/models.h"

#include <algorithm>

#include "api/json_writer.h"

namespace rose {
namespace {

void WriteModel(JsonWriter& json, const ApiContext& context, std::string_view name,
                int64_t created) {
  json.BeginObject();
  json.Key("id").String(name);
  json.Key("object").String("model");
  json.Key("created").Integer(created);
  json.Key("owned_by").String("rose");
  json.Key("root").String(context.models[0]);
  json.Key("parent").Null();
  json.Key("max_model_len").Integer(context.max_context);
  json.Key("permission").BeginArray().EndArray();
  json.EndObject();
}

}  // namespace

std::string ModelsBody(const ApiContext& context, int64_t created) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("object").String("list").Key("data").BeginArray();
  for (const std::string& name : context.models) WriteModel(json, context, name, created);
  json.EndArray().EndObject();
  return out;
}

std::variant<std::string, ApiError> ModelBody(const ApiContext& context, std::string_view name,
                                              int64_t created) {
  if (std::find(context.models.begin(), context.models.end(), name) == context.models.end())
    return UnknownModel(name);
  std::string out;
  JsonWriter json(out);
  WriteModel(json, context, name, created);
  return out;
}

}  // namespace rose
