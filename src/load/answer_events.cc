#include "load/answer_events.h"

#include "base/json.h"

namespace rose {
namespace {

bool HasText(const JsonValue& object, std::string_view key) {
  const JsonValue* text = object.Find(key);
  return text != nullptr && text->string() != nullptr && !text->string()->empty();
}

bool SaysSomething(const JsonValue& choice) {
  if (HasText(choice, "text")) return true;
  const JsonValue* delta = choice.Find("delta");
  if (delta == nullptr) return false;
  for (const char* key : {"content", "reasoning", "reasoning_content", "refusal"}) {
    if (HasText(*delta, key)) return true;
  }
  const JsonValue* calls = delta->Find("tool_calls");
  return calls != nullptr && calls->array() != nullptr && !calls->array()->empty();
}

int64_t Number(const JsonValue& object, std::string_view key) {
  const JsonValue* value = object.Find(key);
  return value == nullptr ? 0 : value->AsInteger().value_or(0);
}

}  // namespace

bool AnswerEvents::Push(std::string_view data) {
  if (data == "[DONE]") {
    is_complete_ = true;
    return false;
  }
  const auto json = ParseJson(data);
  if (!json.ok()) {
    error_ = "an event is no JSON: " + std::string(data.substr(0, 200));
    return false;
  }
  if (const JsonValue* error = json->Find("error"); error != nullptr && !error->is_null()) {
    error_ = "the answer broke off: " + WriteJson(*error).substr(0, 200);
    return false;
  }
  if (const JsonValue* usage = json->Find("usage"); usage != nullptr && usage->object()) {
    prompt_tokens_ = Number(*usage, "prompt_tokens");
    completion_tokens_ = Number(*usage, "completion_tokens");
  }
  const JsonValue* choices = json->Find("choices");
  if (choices == nullptr || choices->array() == nullptr) return false;
  for (const JsonValue& choice : *choices->array()) {
    if (SaysSomething(choice)) return true;
  }
  return false;
}

}  // namespace rose
