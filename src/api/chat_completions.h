// POST /v1/chat/completions (spec E.3 to E.6).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/answer.h"
#include "api/context.h"
#include "api/generation.h"

namespace rose {

// A request, understood.
struct ChatCall : Generation {};

// Parses and checks a body, renders the prompt, resolves the limits. `now` is in Unix seconds.
// Every wrong type or range is a 400 that names the field; an unknown model a 404; a prompt or
// limit that does not fit the context a 400 with code "context_length_exceeded". Unknown fields are
// ignored.
std::variant<ChatCall, ApiError> ParseChatRequest(std::string_view body, const ApiContext& context,
                                                  int64_t now);
// The same for a body that is read already.
std::variant<ChatCall, ApiError> ParseChatRequest(const JsonValue& body, const ApiContext& context,
                                                  int64_t now);

// The answer to one call, all choices. A stream's events are JSON objects, the first of a choice
// with its role, the last with its finish_reason, then the usage if it was asked for, and "[DONE]";
// an error is {"error": ...}.
class ChatAnswer : public Answer {
 public:
  // `context` outlives the answer.
  ChatAnswer(const ChatCall& call, const ApiContext& context);
  ~ChatAnswer() override;

  void Push(int64_t index, const TokenEvent& event, std::vector<StreamEvent>& events) override;
  bool ended(int64_t index) const override;
  bool done() const override;
  const std::optional<ApiError>& failed() const override;
  void Finish(std::vector<StreamEvent>& events) override;
  std::string Body() const override;
  int64_t prompt_tokens() const override;
  int64_t completion_tokens() const override;
  int64_t dropped_bytes() const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Both.
Prepared PrepareChatCompletion(std::string_view body, const ApiContext& context, int64_t now);

}  // namespace rose
