// ParseChatRequest: the body of POST /v1/chat/completions, field by field.
#include <algorithm>
#include <string>

#include "api/chat_completions.h"
#include "api/chat_messages.h"
#include "api/chat_tools.h"
#include "api/field_reader.h"
#include "api/output_form.h"
#include "api/token_fields.h"

namespace rose {
namespace {

// Fields that would change the answer and are not offered: better refused than ignored. A value
// that means "off" is fine.
constexpr const char* kRefused[] = {"audio", "use_beam_search", "documents", "chat_template"};

class RequestParser {
 public:
  RequestParser(const JsonValue& body, const ApiContext& context)
      : body_(body), context_(context), fields_(body, "", error_) {}

  std::variant<ChatCall, ApiError> Parse(int64_t now) {
    if (!error_) ReadModel(fields_, context_, call_);
    if (!error_) {
      Refuse(fields_, kRefused);
      RefuseOlderForms();
      if (fields_.Get("truncate_prompt_tokens"))
        fields_.Fail("truncate_prompt_tokens",
                     "would cut a conversation inside a message; leave old messages out instead");
      ReadConversation(now);
      ReadContinuation();
      ReadSampling(fields_, context_, call_.request.sampling);
      ReadLogprobs();
      ReadChoices(fields_, context_, call_);
      ReadStops(fields_, context_, "stop", call_);
      ReadStream(fields_, call_);
      ReadTokenFields(fields_, context_, call_);
    }
    if (!error_) {
      const bool newer = fields_.Get("max_completion_tokens") != nullptr;
      ReadPromptAndLimits(fields_, context_, newer ? "max_completion_tokens" : "max_tokens",
                          "messages", call_);
    }
    if (!error_) CheckLogprobs();
    if (!error_) Constrain(fields_, context_, call_);
    if (error_) return *error_;
    call_.created = now;
    call_.id = context_.NewId("chatcmpl-");
    return std::move(call_);
  }

 private:
  // What was there before tools, and answers that are more than text. (A `prediction` changes the
  // time that an answer takes, not the answer.)
  void RefuseOlderForms() {
    const JsonValue* functions = fields_.Get("functions");
    if (functions && !(functions->array() && functions->array()->empty()))
      fields_.Fail("functions", "is not supported by this server; use tools");
    const JsonValue* call = fields_.Get("function_call");
    const std::string* word = call ? call->string() : nullptr;
    if (call && !(word && (*word == "none" || *word == "auto")))
      fields_.Fail("function_call", "is not supported by this server; use tools and tool_choice");
    const auto* modalities = fields_.Array("modalities");
    for (size_t i = 0; modalities && i < modalities->size(); ++i) {
      const std::string* name = (*modalities)[i].string();
      if (!name || *name != "text")
        return fields_.Fail(StrCat("modalities[", i, "]"),
                            "must be \"text\", since this model writes nothing else");
    }
  }

  void ReadConversation(int64_t now) {
    ChatRequest& chat = call_.chat;
    chat.messages = ReadMessages(body_, error_);
    ToolFields tools = ReadTools(body_, error_);
    chat.tools = std::move(tools.tools);
    call_.calls_allowed = tools.calls_allowed;
    call_.call_required = tools.call_required;
    call_.only_call = std::move(tools.only_call);
    call_.callable = std::move(tools.callable);
    // Some formats write several calls in one answer.
    call_.only_one_call = !fields_.Bool("parallel_tool_calls", true) || !call_.only_call.empty();
    chat.response_format = ReadResponseFormat(fields_, "response_format", error_);
    call_.form = FormOf(chat.response_format, "response_format");
    ReadForm(fields_, call_.form);
    chat.date = DateOf(context_, now);
    call_.include_reasoning = fields_.Bool("include_reasoning", true);
    call_.thinking_budget = fields_.Integer("thinking_token_budget", -1, 0, INT64_MAX);
    ReadTemplateFields();
  }

  // The effort may also come the way templates take it, and so do the tools that the model knows.
  void ReadTemplateFields() {
    const std::string effort = fields_.String("reasoning_effort");
    if (!effort.empty()) SetEffort(fields_, context_, "reasoning_effort", effort, call_.chat);
    const JsonValue* arguments = fields_.Get("chat_template_kwargs");
    if (!arguments) return;
    FieldReader inner = fields_.Inner(*arguments, "chat_template_kwargs");
    const std::string word = inner.String("reasoning_effort");
    if (!word.empty() && effort.empty())
      SetEffort(fields_, context_, inner.PathOf("reasoning_effort"), word, call_.chat);
    // A template's word: one that has no use for it pays no attention.
    if (!inner.Bool("enable_thinking", true) && context_.format->may_skip_thoughts())
      call_.chat.effort = ReasoningEffort::kNone;
    const auto* builtin = inner.Array("builtin_tools");
    for (size_t i = 0; builtin && i < builtin->size(); ++i) {
      const std::string* name = (*builtin)[i].string();
      if (!name || (*name != "browser" && *name != "python"))
        return inner.Fail(StrCat("builtin_tools[", i, "]"), "must be \"browser\" or \"python\"");
      call_.chat.builtin_tools.push_back(*name);
    }
  }

  // continue_final_message: the answer goes on in the last message. With echo it begins with it.
  void ReadContinuation() {
    const bool wanted = fields_.Bool("continue_final_message", false);
    const bool new_message = fields_.Bool("add_generation_prompt", !wanted);
    const bool echo = fields_.Bool("echo", false);
    if (wanted && new_message)
      fields_.Fail("continue_final_message", "needs add_generation_prompt to be false");
    if (!wanted && !new_message)
      fields_.Fail("add_generation_prompt", "may be false only with continue_final_message");
    if (error_ || !wanted) return;
    const ChatMessage& last = call_.chat.messages.back();
    if (last.role != Role::kAssistant || !last.tool_calls.empty() || last.content.empty())
      return fields_.Fail("continue_final_message",
                          "needs a text of the assistant as the last message");
    const bool strict = std::ranges::any_of(call_.chat.tools, &ToolSpec::strict);
    if (call_.form || call_.call_required || !call_.only_call.empty() || strict ||
        !call_.callable.empty() || call_.thinking_budget >= 0)
      return fields_.Fail("continue_final_message",
                          "cannot be combined with a form of the answer, a forced call, strict "
                          "or allowed tools or a thinking_token_budget");
    call_.chat.continue_final = true;
    if (echo) call_.echo = last.content;
  }

  void ReadLogprobs() {
    const bool wanted = fields_.Bool("logprobs", false);
    int64_t top = fields_.Integer("top_logprobs", 0, -1, kMaxTopLogprobs);
    if (top < 0) top = context_.vocab;
    if (top > 0 && !wanted) fields_.Fail("top_logprobs", "needs logprobs to be true");
    call_.request.sampling.logprobs = wanted ? static_cast<int>(top) : -1;
  }

  void CheckLogprobs() {
    const Request& request = call_.request;
    CheckWholeVocabulary(fields_, context_, "top_logprobs", request.sampling.logprobs,
                         request.max_tokens * call_.choices);
    CheckWholeVocabulary(fields_, context_, "prompt_logprobs", request.prompt_logprobs,
                         std::ssize(request.prompt));
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
