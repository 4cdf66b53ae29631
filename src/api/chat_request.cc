// ParseChatRequest: the body of POST /v1/chat/completions, field by field.
#include <algorithm>
#include <limits>
#include <string>

#include "api/chat_completions.h"
#include "api/chat_messages.h"
#include "api/chat_tools.h"
#include "api/field_reader.h"

namespace rose {
namespace {

constexpr size_t kMaxStops = 16;
constexpr size_t kMaxStopBytes = 512;
constexpr int64_t kMaxTopLogprobs = 20;

// Fields that would change the answer and are not offered: better refused than ignored. A value
// that means "off" is fine.
constexpr const char* kRefused[] = {"functions",
                                    "audio",
                                    "structured_outputs",
                                    "guided_json",
                                    "guided_regex",
                                    "guided_choice",
                                    "guided_grammar",
                                    "prompt_logprobs",
                                    "allowed_token_ids",
                                    "bad_words",
                                    "use_beam_search",
                                    "truncate_prompt_tokens",
                                    "echo",
                                    "documents",
                                    "continue_final_message",
                                    "thinking_token_budget"};

bool IsOff(const JsonValue& value) {
  if (value.boolean()) return !*value.boolean();
  if (value.array()) return value.array()->empty();
  return value.object() && value.object()->empty();
}

class RequestParser {
 public:
  RequestParser(const JsonValue& body, const ApiContext& context)
      : body_(body), context_(context), fields_(body, "", error_) {}

  std::variant<ChatCall, ApiError> Parse(int64_t now) {
    if (!error_) ReadModel();
    if (!error_) {
      for (const char* name : kRefused)
        if (const JsonValue* value = fields_.Get(name); value && !IsOff(*value))
          fields_.Fail(name, "is not supported by this server");
      ReadConversation(now);
      ReadSampling();
      ReadPenaltiesAndBias();
      ReadLogprobs();
      ReadChoices();
      ReadStops();
      ReadStream();
    }
    if (!error_) ReadLimits();
    if (error_) return *error_;
    call_.created = now;
    call_.id = "chatcmpl-" + (context_.new_id ? context_.new_id() : RandomHex());
    return std::move(call_);
  }

 private:
  void ReadModel() {
    call_.model = fields_.String("model", context_.models[0]);
    const auto& served = context_.models;
    if (!error_ && std::find(served.begin(), served.end(), call_.model) == served.end())
      error_ = UnknownModel(call_.model);
  }

  void ReadConversation(int64_t now) {
    ChatRequest& chat = call_.chat;
    chat.messages = ReadMessages(body_, error_);
    ToolFields tools = ReadTools(body_, error_);
    chat.tools = std::move(tools.tools);
    call_.calls_allowed = tools.calls_allowed;
    call_.only_one_call = !fields_.Bool("parallel_tool_calls", true);
    chat.response_format = ReadResponseFormat(body_, error_);
    chat.date = context_.fixed_date.empty() ? UtcDate(now) : context_.fixed_date;
    call_.include_reasoning = fields_.Bool("include_reasoning", true);
    ReadEffort();
  }

  void ReadEffort() {
    std::string effort = fields_.String("reasoning_effort");
    std::string field = "reasoning_effort";
    // How templates take it.
    if (const JsonValue* arguments = fields_.Get("chat_template_kwargs");
        effort.empty() && arguments) {
      field = "chat_template_kwargs.reasoning_effort";
      effort = FieldReader(*arguments, "chat_template_kwargs", error_).String("reasoning_effort");
    }
    if (effort == "low") {
      call_.chat.effort = ReasoningEffort::kLow;
    } else if (effort == "high") {
      call_.chat.effort = ReasoningEffort::kHigh;
    } else if (!effort.empty() && effort != "medium") {
      fields_.Fail(field, StrCat("must be \"low\", \"medium\" or \"high\", not \"", effort, "\""));
    }
  }

  void ReadSampling() {
    SamplingParams& p = call_.request.sampling;
    p = context_.defaults;
    p.temperature = fields_.Number("temperature", p.temperature, 0, 2);
    p.top_p = fields_.Number("top_p", p.top_p, 0, 1);
    // 0 leaves the most likely token alone; the engine wants it positive.
    if (p.top_p == 0) p.top_p = std::numeric_limits<double>::min();
    p.min_p = fields_.Number("min_p", p.min_p, 0, 1);
    p.top_k = static_cast<int>(std::max<int64_t>(
        0, fields_.Integer("top_k", p.top_k, -1, std::numeric_limits<int>::max())));
    if (fields_.Get("seed"))
      p.seed = static_cast<uint64_t>(fields_.Integer("seed", 0, INT64_MIN, INT64_MAX));
  }

  void ReadPenaltiesAndBias() {
    SamplingParams& p = call_.request.sampling;
    p.presence_penalty = fields_.Number("presence_penalty", p.presence_penalty, -2, 2);
    p.frequency_penalty = fields_.Number("frequency_penalty", p.frequency_penalty, -2, 2);
    p.repetition_penalty = fields_.Number("repetition_penalty", p.repetition_penalty, 0.01, 100);
    const JsonValue* bias = fields_.Get("logit_bias");
    if (!bias) return;
    if (!bias->object()) return fields_.Fail("logit_bias", "must be an object of token ids");
    for (const auto& [key, value] : *bias->object()) {
      const std::string path = "logit_bias." + key;
      // A key is a decimal number, which JSON's grammar for numbers checks as well.
      const auto id = JsonValue(JsonValue::Number{key}).AsInteger();
      const bool digits = !key.empty() && key.find_first_not_of("0123456789") == key.npos;
      if (!digits || !id || *id >= context_.vocab)
        return fields_.FailAt(path, "names no token id of the vocabulary");
      const auto number = value.AsDouble();
      if (!number) return fields_.FailAt(path, "must be a number between -100 and 100");
      p.logit_bias.emplace_back(static_cast<int32_t>(*id),
                                static_cast<float>(std::clamp(*number, -100.0, 100.0)));
    }
  }

  void ReadLogprobs() {
    const bool wanted = fields_.Bool("logprobs", false);
    const int64_t top = fields_.Integer("top_logprobs", 0, 0, kMaxTopLogprobs);
    if (top > 0 && !wanted) fields_.Fail("top_logprobs", "needs logprobs to be true");
    call_.request.sampling.logprobs = wanted ? static_cast<int>(top) : -1;
  }

  void ReadChoices() {
    call_.choices = fields_.Integer("n", 1, 1, context_.max_choices);
    if (call_.choices > 1 && call_.request.sampling.temperature == 0)
      fields_.Fail("n", "must be 1 with temperature 0, since all choices would be the same");
  }

  void ReadStops() {
    call_.include_stop = fields_.Bool("include_stop_str_in_output", false);
    if (const JsonValue* stop = fields_.Get("stop")) {
      if (stop->string()) call_.stop.push_back(*stop->string());
      if (!stop->string() && !stop->array())
        return fields_.Fail("stop", "must be a string or a list of strings");
      for (const JsonValue& item : stop->array() ? *stop->array() : JsonValue::Array()) {
        if (!item.string()) return fields_.Fail("stop", "must be a string or a list of strings");
        call_.stop.push_back(*item.string());
      }
    }
    if (call_.stop.size() > kMaxStops) return fields_.Fail("stop", "has more than 16 strings");
    for (const std::string& text : call_.stop)
      if (text.empty() || text.size() > kMaxStopBytes)
        return fields_.Fail("stop", "must hold strings of 1 to 512 bytes");
    ReadStopIds();
  }

  void ReadStopIds() {
    std::vector<int32_t>& ids = call_.request.stop_ids;
    if (!fields_.Bool("ignore_eos", false)) ids = context_.format->stop_ids();
    const auto* more = fields_.Array("stop_token_ids");
    for (size_t i = 0; more && i < more->size(); ++i) {
      const auto id = (*more)[i].AsInteger();
      if (!id || *id < 0 || *id >= context_.vocab)
        return fields_.FailAt(StrCat("stop_token_ids[", i, "]"),
                              "is no token id of the vocabulary");
      if (std::find(ids.begin(), ids.end(), *id) == ids.end())
        ids.push_back(static_cast<int32_t>(*id));
      if (ids.size() > 256) return fields_.Fail("stop_token_ids", "has more than 256 ids");
    }
  }

  void ReadStream() {
    call_.stream = fields_.Bool("stream", false);
    const JsonValue* json = fields_.Get("stream_options");
    if (!json || (json->object() && json->object()->empty())) return;
    if (!call_.stream) return fields_.Fail("stream_options", "is only allowed with stream: true");
    FieldReader options(*json, "stream_options", error_);
    call_.include_usage = options.Bool("include_usage", false);
    call_.continuous_usage = options.Bool("continuous_usage_stats", false);
  }

  // Renders, since the limits depend on the prompt's length.
  void ReadLimits() {
    auto prompt = context_.format->Render(call_.chat);
    if (!prompt.ok()) {
      error_ = ErrorFromStatus(prompt.status());
      return;
    }
    Request& request = call_.request;
    request.prompt = std::move(prompt).value();
    const int64_t used = static_cast<int64_t>(request.prompt.size());
    const int64_t room = context_.max_context - used;
    const char* name =
        fields_.Get("max_completion_tokens") ? "max_completion_tokens" : "max_tokens";
    request.max_tokens = fields_.Integer(name, std::max<int64_t>(room, 1), 1, INT64_MAX);
    if (error_) return;
    if (request.max_tokens > room) return FailContext(used, name);
    request.min_tokens = fields_.Integer("min_tokens", 0, 0, request.max_tokens);
    if (used * call_.choices > context_.max_prompt_total)
      fields_.Fail("n", StrCat("is too large for a prompt of ", used, " tokens"));
  }

  void FailContext(int64_t used, const char* name) {
    const int64_t wanted = call_.request.max_tokens;
    ApiError error{.param = used >= context_.max_context ? "messages" : name,
                   .code = "context_length_exceeded"};
    error.message = StrCat("This model's maximum context length is ", context_.max_context,
                           " tokens. However, the messages have ", used, " tokens");
    if (used < context_.max_context) error.message += StrCat(" and ", name, " asks for ", wanted);
    error.message += ". Shorten the messages or ask for fewer tokens.";
    error_ = std::move(error);
  }

  const JsonValue& body_;
  const ApiContext& context_;
  std::optional<ApiError> error_;
  FieldReader fields_;
  ChatCall call_;
};

}  // namespace

Request ChatCall::RequestOf(int64_t index) const {
  Request out = request;
  // Any fixed function of seed and index does; this constant spreads the bits (2^64 / golden
  // ratio).
  if (out.sampling.seed && index > 0)
    out.sampling.seed = *out.sampling.seed + static_cast<uint64_t>(index) * 0x9e3779b97f4a7c15u;
  return out;
}

std::variant<ChatCall, ApiError> ParseChatRequest(std::string_view body, const ApiContext& context,
                                                  int64_t now) {
  const auto json = ParseJson(body);
  if (!json.ok()) return ErrorFromStatus(json.status());
  return RequestParser(*json, context).Parse(now);
}

}  // namespace rose
