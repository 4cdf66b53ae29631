#include "api/messages.h"

#include <algorithm>
#include <utility>

#include "api/chat_completions.h"
#include "api/json_writer.h"
#include "api/messages_request.h"

namespace rose {
namespace {

std::string_view TypeOf(int http_status) {
  switch (http_status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return http_status < 500 ? "invalid_request_error" : "api_error";
  }
}

// Fields that have another name in chat completions: theirs, ours.
constexpr std::pair<std::string_view, std::string_view> kNames[] = {
    {"stop", "stop_sequences"},
    {"response_format", "output_config.format"},
    {"reasoning_effort", "output_config.effort"}};

// An error of chat completions, which begins with the field, about the field as it is called here.
void NameAsHere(ApiError& error) {
  const auto rename = [](std::string& text, std::string_view theirs, std::string_view ours) {
    if (!text.starts_with(theirs)) return;
    const char next = text.size() == theirs.size() ? ' ' : text[theirs.size()];
    if (next == ' ' || next == '.' || next == '[') text.replace(0, theirs.size(), ours);
  };
  for (const auto& [theirs, ours] : kNames) {
    rename(error.param, theirs, ours);
    rename(error.message, theirs, ours);
  }
  // A function's members stand in the tool itself.
  for (std::string* text : {&error.param, &error.message}) {
    const size_t at = text->find("].function.");
    if (text->starts_with("tools[") && at != text->npos)
      text->erase(at + 1, std::string_view(".function").size());
  }
}

// The chat call of a body whose limit is left out, and the limit.
std::variant<std::pair<ChatCall, int64_t>, ApiError> ParseAsChat(std::string_view body,
                                                                 const ApiContext& context,
                                                                 int64_t now) {
  const auto json = ParseJson(body);
  if (!json.ok()) return ErrorFromStatus(json.status());
  std::optional<ApiError> error;
  const TranslatedMessages translated = TranslateMessages(*json, error);
  if (error) return *error;
  auto parsed = ParseChatRequest(translated.chat, context, now);
  if (auto* failure = std::get_if<ApiError>(&parsed)) {
    NameAsHere(*failure);
    return std::move(*failure);
  }
  return std::pair{std::get<ChatCall>(std::move(parsed)), translated.max_tokens};
}

}  // namespace

std::variant<MessagesCall, ApiError> ParseMessagesRequest(std::string_view body,
                                                          const ApiContext& context, int64_t now) {
  auto parsed = ParseAsChat(body, context, now);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  auto& [chat, max_tokens] = std::get<0>(parsed);
  if (max_tokens == 0) return ApiError{.message = "max_tokens is missing.", .param = "max_tokens"};
  MessagesCall call{std::move(static_cast<Generation&>(chat))};
  call.id = context.NewId("msg_");
  // Clients ask for all that the largest models can write: what fits must do.
  call.fills_context = max_tokens > call.request.max_tokens;
  call.request.max_tokens = std::min(max_tokens, call.request.max_tokens);
  return call;
}

Prepared PrepareMessages(std::string_view body, const ApiContext& context, int64_t now) {
  auto parsed = ParseMessagesRequest(body, context, now);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  auto& call = std::get<MessagesCall>(parsed);
  PreparedCall out{call.model, call.stream, call.Requests(), nullptr};
  out.answer = std::make_unique<MessagesAnswer>(std::move(call), context);
  return out;
}

std::variant<std::string, ApiError> CountMessageTokens(std::string_view body,
                                                       const ApiContext& context, int64_t now) {
  auto parsed = ParseAsChat(body, context, now);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("input_tokens");
  json.Integer(static_cast<int64_t>(std::get<0>(parsed).first.request.prompt.size()));
  json.EndObject();
  return out;
}

std::string MessagesErrorBody(const ApiError& error) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("type").String("error").Key("error").BeginObject();
  json.Key("type").String(TypeOf(error.http_status));
  json.Key("message").String(error.message);
  if (!error.code.empty())
    json.Key("details").BeginObject().Key("error_code").String(error.code).EndObject();
  json.EndObject().EndObject();
  return out;
}

}  // namespace rose
