// POST /v1/responses: the answer (spec E.9, E.10).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/answer.h"
#include "api/responses_request.h"

namespace rose {

// The answer to one call: an item for each message of the model, in its order. The events of a
// stream and the object are those of a ResponseRecord. A response that ends by itself has a message
// or a call at least: an empty message if the model said nothing else.
class ResponsesAnswer : public Answer {
 public:
  // `context` and what it points to outlive the answer.
  ResponsesAnswer(ResponsesCall call, const ApiContext& context);
  ~ResponsesAnswer() override;

  // A response in the background is found in the store from here on.
  void Started(std::function<void()> cancel) override;
  void Begin(std::vector<StreamEvent>& events) override;
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
  std::shared_ptr<State> state_;  // a stored response that runs refers to it, weakly
};

// Both.
Prepared PrepareResponse(std::string_view body, const ApiContext& context, int64_t now);

}  // namespace rose
