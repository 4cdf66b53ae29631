// POST /v1/messages and /v1/messages/count_tokens, the API of Anthropic: its requests become those
// of chat completions (messages_request.h), and what comes back is written in its form.
//
// The answer is a list of content blocks: "thinking" for what the model thought, "text", and
// "tool_use" for a call. A call's input is an object; if the model wrote none (it was cut off), the
// body has {"INVALID_JSON": "what it wrote"}, and a stream the bare text.
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
struct MessagesCall : Generation {
  bool fills_context = false;  // max_tokens is more than the context has room for
};

// Fields at fault are named as the request has them.
std::variant<MessagesCall, ApiError> ParseMessagesRequest(std::string_view body,
                                                          const ApiContext& context, int64_t now);

// One call's answer: message_start and ping, then for each block content_block_start, deltas and
// content_block_stop, then message_delta with stop reason and usage, and message_stop. A failure
// ends a stream as the event "error".
class MessagesAnswer : public Answer {
 public:
  // `context` outlives the answer.
  MessagesAnswer(MessagesCall call, const ApiContext& context);
  ~MessagesAnswer() override;

  void Begin(std::vector<StreamEvent>& events) override;
  void Push(int64_t index, const TokenEvent& event, std::vector<StreamEvent>& events) override;
  bool ended(int64_t index) const override;
  bool done() const override;
  const std::optional<ApiError>& failed() const override;
  void Finish(std::vector<StreamEvent>& events) override;
  std::string Body() const override;
  int64_t prompt_tokens() const override;
  int64_t completion_tokens() const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Both.
Prepared PrepareMessages(std::string_view body, const ApiContext& context, int64_t now);

// {"input_tokens": n} of a request's prompt; max_tokens may be absent.
std::variant<std::string, ApiError> CountMessageTokens(std::string_view body,
                                                       const ApiContext& context, int64_t now);

// {"type": "error", "error": {"type", "message"}}; the type follows from the HTTP status. An error
// with a code has it as "details": {"error_code"} in the inner object.
std::string MessagesErrorBody(const ApiError& error);

}  // namespace rose
