#include "api/responses_echo.h"

#include "api/chat_tools.h"
#include "api/field_reader.h"
#include "api/json_writer.h"

namespace rose {
namespace {

constexpr size_t kMaxMetadata = 16;
constexpr size_t kMaxMetadataKey = 64;
constexpr size_t kMaxMetadataValue = 512;

class Echo {
 public:
  Echo(const JsonValue& body, const ResponsesCall& call, std::optional<ApiError>& error)
      : call_(call), fields_(body, "", error), error_(error), json_(out_) {}

  std::string Write() {
    const SamplingParams& sampling = call_.request.sampling;
    Text("instructions");
    Count("max_output_tokens");
    Count("max_tool_calls");
    Metadata();
    json_.Key("parallel_tool_calls").Bool(fields_.Bool("parallel_tool_calls", true));
    Text("previous_response_id");
    json_.Key("prompt").Null();
    Reasoning();
    json_.Key("service_tier").String(fields_.String("service_tier", "auto"));
    json_.Key("store").Bool(call_.store);
    json_.Key("temperature").Float(static_cast<float>(sampling.temperature));
    Format();
    Raw("tool_choice", "\"auto\"");
    Tools();
    json_.Key("top_logprobs").Integer(fields_.Integer("top_logprobs", 0, 0, INT64_MAX));
    json_.Key("top_p").Float(static_cast<float>(sampling.top_p));
    json_.Key("truncation").String(fields_.String("truncation", "disabled"));
    for (const char* name : {"user", "prompt_cache_key", "safety_identifier"}) Text(name);
    return std::move(out_);
  }

 private:
  void Text(std::string_view name) {
    const bool given = fields_.Get(name) != nullptr;
    const std::string text = fields_.String(name);
    json_.Key(name);
    given ? json_.String(text) : json_.Null();
  }
  void Count(std::string_view name) {
    const bool given = fields_.Get(name) != nullptr;
    const int64_t count = fields_.Integer(name, 1, 1, INT64_MAX);
    json_.Key(name);
    given ? json_.Integer(count) : json_.Null();
  }
  void Raw(std::string_view name, std::string_view absent) {
    const JsonValue* value = fields_.Get(name);
    const bool given = value && !(value->object() && value->object()->empty());
    json_.Key(name).Raw(given ? WriteJson(*value) : absent);
  }

  // Those that hold.
  void Tools() {
    json_.Key("tools").BeginArray();
    if (const auto* tools = fields_.Array("tools"))
      for (const JsonValue& tool : *tools)
        if (!IsLeftOut(tool)) json_.Raw(WriteJson(tool));
    json_.EndArray();
  }

  void Metadata() {
    const JsonValue* metadata = fields_.Get("metadata");
    Raw("metadata", "{}");
    if (!metadata) return;
    if (!metadata->object()) return fields_.Fail("metadata", "must be an object of strings");
    if (metadata->object()->size() > kMaxMetadata)
      return fields_.Fail("metadata", "has more than 16 entries");
    for (const auto& [key, value] : *metadata->object()) {
      if (key.size() > kMaxMetadataKey)
        return fields_.Fail("metadata", "has a key of more than 64 bytes");
      if (!value.string() || value.string()->size() > kMaxMetadataValue)
        return fields_.FailAt("metadata." + key, "must be a string of at most 512 bytes");
    }
  }

  void Reasoning() {
    json_.Key("reasoning").BeginObject();
    json_.Key("effort").String(EffortName(call_.chat.effort)).Key("summary");
    std::string summary;
    if (const JsonValue* reasoning = fields_.Get("reasoning")) {
      FieldReader inner(*reasoning, "reasoning", error_);
      summary = inner.String("summary");
      if (!summary.empty() && summary != "auto" && summary != "concise" && summary != "detailed")
        inner.Fail("summary", "must be \"auto\", \"concise\" or \"detailed\"");
    }
    json_.StringOrNull(summary).EndObject();
  }

  void Format() {
    json_.Key("text").BeginObject().Key("format");
    const JsonValue* text = fields_.Get("text");
    const JsonValue* format = text ? text->Find("format") : nullptr;
    const bool given = format && format->object() && !format->object()->empty();
    json_.Raw(given ? WriteJson(*format) : R"({"type":"text"})");
    if (text) {
      FieldReader inner(*text, "text", error_);
      const std::string verbosity = inner.String("verbosity");
      if (!verbosity.empty()) json_.Key("verbosity").String(verbosity);
      if (!verbosity.empty() && verbosity != "low" && verbosity != "medium" && verbosity != "high")
        inner.Fail("verbosity", "must be \"low\", \"medium\" or \"high\"");
    }
    json_.EndObject();
  }

  const ResponsesCall& call_;
  FieldReader fields_;
  std::optional<ApiError>& error_;
  std::string out_;
  JsonWriter json_;
};

}  // namespace

std::string ResponseEcho(const JsonValue& body, const ResponsesCall& call,
                         std::optional<ApiError>& error) {
  return Echo(body, call, error).Write();
}

}  // namespace rose
