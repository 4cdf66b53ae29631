// ParseChatRequest: the body of POST /v1/chat/completions, field by field.
#include <string>

#include "api/chat_completions.h"
#include "api/chat_messages.h"
#include "api/chat_tools.h"
#include "api/field_reader.h"
#include "api/output_form.h"

namespace rose {
namespace {

constexpr int64_t kMaxTopLogprobs = 20;

// Fields that would change the answer and are not offered: better refused than ignored. A value
// that means "off" is fine.
constexpr const char* kRefused[] = {"functions",
                                    "audio",
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
    if (!error_) ReadModel(fields_, context_, call_);
    if (!error_) {
      for (const char* name : kRefused)
        if (const JsonValue* value = fields_.Get(name); value && !IsOff(*value))
          fields_.Fail(name, "is not supported by this server");
      ReadConversation(now);
      ReadSampling(fields_, context_, call_.request.sampling);
      ReadLogprobs();
      ReadChoices(fields_, context_, call_);
      ReadStops(fields_, context_, "stop", call_);
      ReadStream();
    }
    if (!error_) {
      const bool newer = fields_.Get("max_completion_tokens") != nullptr;
      ReadPromptAndLimits(fields_, context_, newer ? "max_completion_tokens" : "max_tokens",
                          "messages", call_);
    }
    if (!error_) Constrain(fields_, context_, call_);
    if (error_) return *error_;
    call_.created = now;
    call_.id = context_.NewId("chatcmpl-");
    return std::move(call_);
  }

 private:
  void ReadConversation(int64_t now) {
    ChatRequest& chat = call_.chat;
    chat.messages = ReadMessages(body_, error_);
    ToolFields tools = ReadTools(body_, error_);
    chat.tools = std::move(tools.tools);
    call_.calls_allowed = tools.calls_allowed;
    call_.call_required = tools.call_required;
    call_.only_call = std::move(tools.only_call);
    call_.only_one_call = !fields_.Bool("parallel_tool_calls", true);
    chat.response_format = ReadResponseFormat(fields_, "response_format", error_);
    call_.form = FormOf(chat.response_format, "response_format");
    ReadForm(fields_, call_.form);
    chat.date = DateOf(context_, now);
    call_.include_reasoning = fields_.Bool("include_reasoning", true);
    ReadEffort();
  }

  void ReadEffort() {
    const std::string effort = fields_.String("reasoning_effort");
    if (!effort.empty()) return SetEffort(fields_, "reasoning_effort", effort, call_.chat);
    // How templates take it.
    const JsonValue* arguments = fields_.Get("chat_template_kwargs");
    if (!arguments) return;
    FieldReader inner(*arguments, "chat_template_kwargs", error_);
    const std::string word = inner.String("reasoning_effort");
    if (!word.empty()) SetEffort(fields_, inner.PathOf("reasoning_effort"), word, call_.chat);
  }

  void ReadLogprobs() {
    const bool wanted = fields_.Bool("logprobs", false);
    const int64_t top = fields_.Integer("top_logprobs", 0, 0, kMaxTopLogprobs);
    if (top > 0 && !wanted) fields_.Fail("top_logprobs", "needs logprobs to be true");
    call_.request.sampling.logprobs = wanted ? static_cast<int>(top) : -1;
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

  const JsonValue& body_;
  const ApiContext& context_;
  std::optional<ApiError> error_;
  FieldReader fields_;
  ChatCall call_;
};

}  // namespace

std::variant<ChatCall, ApiError> ParseChatRequest(std::string_view body, const ApiContext& context,
                                                  int64_t now) {
  const auto json = ParseJson(body);
  if (!json.ok()) return ErrorFromStatus(json.status());
  return ParseChatRequest(*json, context, now);
}

std::variant<ChatCall, ApiError> ParseChatRequest(const JsonValue& body, const ApiContext& context,
                                                  int64_t now) {
  return RequestParser(body, context).Parse(now);
}

Prepared PrepareChatCompletion(std::string_view body, const ApiContext& context, int64_t now) {
  auto parsed = ParseChatRequest(body, context, now);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  const ChatCall& call = std::get<ChatCall>(parsed);
  return PreparedCall{call.model, call.stream, call.Requests(),
                      std::make_unique<ChatAnswer>(call, context)};
}

}  // namespace rose
