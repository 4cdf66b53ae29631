// The answer to a request that generates, whatever the endpoint: what the server drives. Endpoints
// are pure functions: a body to a PreparedCall, and the engine's events to text. No sockets, no
// clock, no threads.
//
//   Prepared prepared = PrepareChatCompletion(body, context, now);
//   if (auto* error = std::get_if<ApiError>(&prepared)) -> error->http_status, ErrorBody(*error)
//   submit every request of the call; with `stream`, send what Answer::Begin says
//   each TokenEvent of request i: answer->Push(i, event, events)   (all on one thread)
//     if (call.stream) send every event
//     if answer->ended(i) before the engine's last event: cancel request i
//   when answer->done(): stream: answer->Finish(events); else answer->failed() ? its error :
//   answer->Body()
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/error.h"
#include "request/request.h"

namespace rose {

// One server-sent event. `data` has no line breaks.
struct StreamEvent {
  std::string data;
  std::string name = {};  // of its "event:" line; empty = none
};

// Not thread-safe. Any token stream gives a valid answer.
class Answer {
 public:
  virtual ~Answer() = default;

  // The engine has all requests; `cancel` cancels them, on the thread of all other calls.
  virtual void Started(std::function<void()> /*cancel*/) {}
  // Stream: what is sent before the first token.
  virtual void Begin(std::vector<StreamEvent>&) {}
  // News of request `index`. If the call streams, appends the events that follow from it, a failure
  // as the endpoint's error event. What comes after a request has ended is ignored.
  virtual void Push(int64_t index, const TokenEvent& event, std::vector<StreamEvent>& events) = 0;
  // The request needs no more tokens: the engine finished it, or the answer is complete without.
  // The caller cancels the engine's request if that still runs.
  virtual bool ended(int64_t index) const = 0;
  // All requests have ended, or one has failed (then the caller cancels the others).
  virtual bool done() const = 0;
  // Why there is no answer: the engine's error or a cancellation that was not ours.
  virtual const std::optional<ApiError>& failed() const = 0;

  // Stream, once done: what closes it.
  virtual void Finish(std::vector<StreamEvent>& events) = 0;
  // No stream, once done and not failed: the body of the response. Of a detached call also what it
  // answers at once.
  virtual std::string Body() const = 0;

  // For the log: tokens over all requests so far.
  virtual int64_t prompt_tokens() const = 0;
  virtual int64_t completion_tokens() const = 0;
  // For the log: bytes that the model wrote and no field of the answer could hold.
  virtual int64_t dropped_bytes() const { return 0; }
};

// A body, understood and checked.
struct PreparedCall {
  std::string model;  // the name it is served under
  bool stream = false;
  std::vector<Request> requests;  // without on_event; at least one
  std::unique_ptr<Answer> answer;
  bool detached = false;  // it goes on without its client, who can ask for it later
};

using Prepared = std::variant<PreparedCall, ApiError>;

}  // namespace rose
