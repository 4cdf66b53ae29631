#include "api/usage_json.h"

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

}  // namespace rose
