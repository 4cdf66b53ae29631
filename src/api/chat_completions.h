// POST /v1/chat/completions as pure functions (spec E.3 to E.6): a body to engine requests, and the
// engine's events to one answer or to stream chunks. No sockets, no clock, no threads.
//
//   auto parsed = ParseChatRequest(body, context, now);
//   if (auto* error = std::get_if<ApiError>(&parsed)) -> error->http_status, ErrorBody(*error)
//   auto& call = std::get<ChatCall>(parsed);
//   ChatAnswer answer(call, context);
//   for i < call.choices: engine.Submit(call.RequestOf(i) + on_event)
//   each TokenEvent of choice i: answer.Push(i, event, chunks)   (all on one thread)
//     if call.stream: write every chunk as "data: " + chunk + "\n\n"
//     if answer.ended(i) before the event's finish: engine.Cancel(id of i)
//   when answer.done(): stream: answer.Finish(chunks); else answer.failed() ? ErrorBody :
//   answer.Body()
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/error.h"
#include "chat/chat_format.h"
#include "request/request.h"
#include "tokenizer/tokenizer.h"

namespace rose {

// What the server is: set once at start, read by every request. The pointers outlive all requests.
struct ApiContext {
  std::vector<std::string> models;  // served names, at least one; the first is the default
  const ChatFormat* format = nullptr;
  const Tokenizer* tokenizer = nullptr;
  int64_t max_context = 0;  // tokens of prompt + answer
  int64_t vocab = 0;        // ids in [0, vocab) are tokens of the model
  SamplingParams defaults;  // where the request says nothing (generation_config.json)
  std::string fixed_date;   // "YYYY-MM-DD" for the system message; empty = the day (UTC) of `now`
  int64_t max_choices = 128;
  int64_t max_prompt_total = 1 << 22;  // tokens of the prompt times choices
  // Random text, new at every call; thread-safe. Empty = RandomHex.
  std::function<std::string()> new_id;
};

// 32 random hexadecimal digits from the operating system.
std::string RandomHex();
// "YYYY-MM-DD" in UTC.
std::string UtcDate(int64_t unix_seconds);

// A request, understood.
struct ChatCall {
  std::string id;     // "chatcmpl-..."
  std::string model;  // as the request names it, else the default
  int64_t created = 0;
  ChatRequest chat;  // what was rendered
  Request request;   // without on_event
  int64_t choices = 1;
  bool stream = false;
  bool include_usage = false;     // a last chunk with the usage
  bool continuous_usage = false;  // usage on every chunk
  bool include_reasoning = true;
  bool calls_allowed = false;     // tools are declared and tool_choice is not "none"
  bool only_one_call = false;     // parallel_tool_calls: false
  bool include_stop = false;      // the answer shows the stop string that ended it
  std::vector<std::string> stop;  // stop strings, none empty

  // The engine request of choice `index`: with a seed each choice gets its own, derived from it.
  Request RequestOf(int64_t index) const;
};

// Parses and checks a body, renders the prompt, resolves the limits. `now` is in Unix seconds.
// Every wrong type or range is a 400 that names the field; an unknown model a 404; a prompt or
// limit that does not fit the context a 400 with code "context_length_exceeded". Unknown fields are
// ignored.
std::variant<ChatCall, ApiError> ParseChatRequest(std::string_view body, const ApiContext& context,
                                                  int64_t now);

// The answer to one call, all choices. Not thread-safe. Any token stream gives a valid answer.
class ChatAnswer {
 public:
  // `context` outlives the answer.
  ChatAnswer(const ChatCall& call, const ApiContext& context);
  ~ChatAnswer();
  ChatAnswer(ChatAnswer&&) noexcept;

  // News of choice `index`. If the call streams, appends the chunks that follow from it: JSON
  // objects without line breaks, the first of a choice with its role, the last with its
  // finish_reason; an error as {"error": ...}. What comes after a choice has ended is ignored.
  void Push(int64_t index, const TokenEvent& event, std::vector<std::string>& chunks);

  // The choice needs no more tokens: the engine finished it, or a stop string did, or a second call
  // was not wanted. The caller cancels the engine's request if that still runs.
  bool ended(int64_t index) const;
  // All choices have ended, or one has failed (then the caller cancels the others).
  bool done() const;
  // Why there is no answer: the engine's error or a cancellation that was not ours.
  const std::optional<ApiError>& failed() const;

  // Stream, once done: the usage chunk if it was asked for and nothing failed, then "[DONE]".
  void Finish(std::vector<std::string>& chunks);
  // No stream, once done and not failed: the body of the response.
  std::string Body() const;

  // For the log: tokens over all choices so far.
  int64_t prompt_tokens() const;
  int64_t completion_tokens() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rose
