// POST /v1/completions (spec E.7): raw text goes on, without a chat format.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "api/answer.h"
#include "api/context.h"
#include "api/generation.h"

namespace rose {

// A request, understood. Its answer has a choice for each prompt and each of `choices`.
struct CompletionCall : Generation {
  std::vector<std::vector<int32_t>> prompts;  // at least one, none empty
  bool echo = false;                          // the text begins with the prompt
  int64_t logprobs = -1;                      // -1 = none; with echo the prompt's too
  int64_t prompt_logprobs = -1;               // vLLM's own field, apart from `logprobs`
  bool skip_special = true;                   // special tokens have no text
  bool only_prompt = false;                   // max_tokens is 0

  int64_t answers() const { return static_cast<int64_t>(prompts.size()) * choices; }
  // Of every answer: prompt 0 choice 0, prompt 0 choice 1, ...
  std::vector<Request> Requests() const;
};

// As ParseChatRequest. Special tokens in a text prompt become their ids: nothing else marks a
// prompt's structure here. `max_tokens` is 16 by default, and 0 is allowed with `echo`.
std::variant<CompletionCall, ApiError> ParseCompletionRequest(std::string_view body,
                                                              const ApiContext& context,
                                                              int64_t now);

class CompletionAnswer : public Answer {
 public:
  // `context` outlives the answer.
  CompletionAnswer(const CompletionCall& call, const ApiContext& context);
  ~CompletionAnswer() override;

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

Prepared PrepareCompletion(std::string_view body, const ApiContext& context, int64_t now);

}  // namespace rose
