#include "api/choices_json.h"

namespace rose {

void WriteUsage(JsonWriter& json, const Usage& usage) {
  json.BeginObject();
  json.Key("prompt_tokens").Integer(usage.prompt_tokens);
  json.Key("total_tokens").Integer(usage.prompt_tokens + usage.completion_tokens);
  json.Key("completion_tokens").Integer(usage.completion_tokens);
  json.Key("prompt_tokens_details").BeginObject();
  json.Key("cached_tokens").Integer(usage.cached_tokens).EndObject();
  json.Key("completion_tokens_details").BeginObject();
  json.Key("reasoning_tokens").Integer(usage.reasoning_tokens).EndObject();
  json.EndObject();
}

void WriteHead(JsonWriter& json, const Generation& call, std::string_view object) {
  json.BeginObject().Key("id").String(call.id).Key("object").String(object);
  json.Key("created").Integer(call.created).Key("model").String(call.model);
}

void WriteChunkUsage(JsonWriter& json, const Generation& call, const Usage& usage) {
  if (call.continuous_usage) {
    WriteUsage(json.Key("usage"), usage);
  } else if (call.include_usage) {
    json.Key("usage").Null();
  }
}

void WriteIds(JsonWriter& json, const Generation& call, std::string_view name,
              const std::vector<int32_t>& ids) {
  json.Key(name);
  if (call.return_token_ids) {
    json.Integers(ids);
  } else {
    json.Null();
  }
}

void FinishChunks(const Generation& call, std::string_view object, bool failed, const Usage& usage,
                  std::vector<StreamEvent>& events) {
  if (call.include_usage && !failed) {
    std::string out;
    JsonWriter json(out);
    WriteHead(json, call, object);
    json.Key("choices").BeginArray().EndArray();
    WriteUsage(json.Key("usage"), usage);
    json.EndObject();
    events.push_back({std::move(out)});
  }
  events.push_back({"[DONE]"});
}

}  // namespace rose
