// A server's context over a format's tokenizer, by default Harmony's of bytes, and answers made
// from text with markers.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "api/chat_completions.h"
#include "base/json.h"
#include "chat/dialects.h"
#include "grammar/compiler.h"

namespace rose {

class ChatFixture {
 public:
  explicit ChatFixture(const Dialect& dialect = HarmonyDialect())
      : dialect_(dialect), tokenizer_(dialect.tokenizer), format_(dialect.Format()) {
    context_.models = {"rosebud", "alias"};
    context_.format = format_.get();
    context_.tokenizer = &tokenizer_;
    context_.grammars = Grammars(dialect);
    context_.max_context = 100000;
    context_.vocab = tokenizer_.vocab();
    context_.fixed_date = "2026-05-05";
    context_.new_id = [this] { return "id" + std::to_string(next_id_++); };
  }

  const Dialect& dialect() const { return dialect_; }
  ApiContext& context() { return context_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }

  std::variant<ChatCall, ApiError> Parse(std::string_view body) {
    return ParseChatRequest(body, context_, 1764400000);
  }
  // With one user message and these further fields, such as R"("n":2)".
  std::variant<ChatCall, ApiError> ParseWith(std::string_view fields) {
    return Parse(StrCat(R"({"messages":[{"role":"user","content":"hi"}])",
                        fields.empty() ? "" : ",", fields, "}"));
  }
  ChatCall Call(std::string_view fields) {
    auto parsed = ParseWith(fields);
    if (const auto* error = std::get_if<ApiError>(&parsed)) ADD_FAILURE() << ErrorBody(*error);
    return std::get<ChatCall>(std::move(parsed));
  }
  // "param: message", or "" if the request is accepted.
  std::string ErrorOf(std::variant<ChatCall, ApiError> parsed) {
    const auto* error = std::get_if<ApiError>(&parsed);
    return error ? error->param + ": " + error->message : "";
  }

  std::string Prompt(const ChatCall& call) {
    std::string text;
    for (const int32_t id : call.request.prompt) text += tokenizer_.Bytes(id);
    return text;
  }

  // The text's tokens as one event; it ends as the last token says, or by length.
  TokenEvent EventOf(std::string_view text) {
    TokenEvent event;
    for (const int32_t id : tokenizer_.EncodeWithSpecials(text))
      event.tokens.push_back(Sampled(id));
    Finish(event);
    return event;
  }
  void Finish(TokenEvent& event) {
    event.finish = FinishReason::kLength;
    for (const int32_t stop : format_->stop_ids())
      if (!event.tokens.empty() && event.tokens.back().id == stop) {
        event.finish = FinishReason::kStop;
        event.stop_id = stop;
      }
  }
  // The same as events of `step` tokens each.
  std::vector<TokenEvent> Steps(std::string_view text, size_t step) {
    const TokenEvent whole = EventOf(text);
    std::vector<TokenEvent> events;
    for (size_t at = 0; at < whole.tokens.size(); at += step) {
      TokenEvent& event = events.emplace_back();
      const size_t end = std::min(at + step, whole.tokens.size());
      event.tokens.assign(whole.tokens.begin() + at, whole.tokens.begin() + end);
      if (end < whole.tokens.size()) continue;
      event.finish = whole.finish;
      event.stop_id = whole.stop_id;
    }
    return events;
  }
  static SampledToken Sampled(int32_t id) {
    return {.id = id, .logprob = -0.5f, .top = {{id, -0.5f}, {'x', -INFINITY}}};
  }

  // The whole body of an answer that is not streamed.
  JsonValue Body(ChatCall call, std::string_view text) {
    call.stream = false;
    ChatAnswer answer(call, context_);
    std::vector<StreamEvent> chunks;
    for (int64_t i = 0; i < call.choices; ++i) answer.Push(i, EventOf(text), chunks);
    EXPECT_TRUE(answer.done());
    EXPECT_TRUE(chunks.empty());
    return *ParseJson(answer.Body());
  }
  static std::vector<std::string> Data(const std::vector<StreamEvent>& events) {
    std::vector<std::string> out;
    for (const StreamEvent& event : events) out.push_back(event.data);
    return out;
  }
  // All chunks of a stream, `step` tokens an event.
  std::vector<std::string> Stream(ChatCall call, std::string_view text, size_t step = 1) {
    call.stream = true;
    ChatAnswer answer(call, context_);
    std::vector<StreamEvent> events;
    for (const TokenEvent& event : Steps(text, step))
      for (int64_t i = 0; i < call.choices; ++i) answer.Push(i, event, events);
    EXPECT_TRUE(answer.done());
    answer.Finish(events);
    return Data(events);
  }

 private:
  // One of each format for all tests of a process; null in a build without grammars.
  static GrammarCompiler* Grammars(const Dialect& dialect) {
    if (!HasGrammars()) return nullptr;
    static std::map<std::string, std::unique_ptr<GrammarCompiler>> compilers;
    std::unique_ptr<GrammarCompiler>& compiler = compilers[dialect.name];
    if (!compiler)
      compiler =
          GrammarCompiler::Create(dialect.tokenizer, {.deadline = std::chrono::minutes(1)}).value();
    return compiler.get();
  }

  const Dialect& dialect_;
  const Tokenizer& tokenizer_;
  std::unique_ptr<ChatFormat> format_;
  ApiContext context_;
  int next_id_ = 1;
};

// A value by its path: "choices.0.message.content"; null if there is none.
inline const JsonValue& At(const JsonValue& value, std::string_view path) {
  static const JsonValue kNull;
  if (path.empty()) return value;
  const size_t dot = path.find('.');
  const std::string_view name = path.substr(0, dot);
  const std::string_view rest = dot == path.npos ? "" : path.substr(dot + 1);
  if (const auto* items = value.array()) {
    const size_t index = std::stoul(std::string(name));
    return index < items->size() ? At((*items)[index], rest) : kNull;
  }
  const JsonValue* member = value.Find(name);
  return member ? At(*member, rest) : kNull;
}
// The same as JSON text.
inline std::string Text(const JsonValue& value, std::string_view path) {
  return WriteJson(At(value, path));
}

}  // namespace rose
