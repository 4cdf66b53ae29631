// One choice of a completion: sampled tokens to text. Streamed or not, it is the same path: the
// whole is the sum of the pieces.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/completions.h"
#include "api/stop_matcher.h"

namespace rose {

// One token of "logprobs".
struct TextLogprob {
  SampledToken token;
  bool has_logprob = true;  // the prompt's first token has none
  int64_t offset = 0;       // characters of the choice's text before it
};

// What a choice says more.
struct CompletionPiece {
  std::string text;
  std::vector<TextLogprob> logprobs;  // of the tokens of this text, with `logprobs` >= 0
  std::vector<int32_t> token_ids;     // sampled, with return_token_ids
  bool empty() const { return text.empty() && logprobs.empty() && token_ids.empty(); }
};

class CompletionChoice {
 public:
  // Both outlive the choice; `prompt` is among call.prompts, and read only until the first token.
  CompletionChoice(const CompletionCall& call, const ApiContext& context,
                   const std::vector<int32_t>& prompt);

  // What an event adds. Nothing once it has ended.
  CompletionPiece Push(const TokenEvent& event);

  bool ended() const { return ended_; }
  const std::string& finish_reason() const { return finish_reason_; }  // "stop" or "length"
  const std::string& stop_reason() const { return stop_reason_; }      // as JSON
  const std::optional<ApiError>& failed() const { return failed_; }
  int64_t completion_tokens() const { return completion_tokens_; }
  int64_t cached_tokens() const { return cached_tokens_; }
  // With prompt_logprobs: tokens from position 1 on; complete with the first piece.
  const std::vector<SampledToken>& prompt_scores() const { return prompt_scores_; }

 private:
  void Echo(CompletionPiece& piece);
  void PushToken(const SampledToken& token, CompletionPiece& piece);
  std::string Append(std::string text);
  void Release(int64_t limit, CompletionPiece& piece);
  void End(const TokenEvent& event, CompletionPiece& piece);

  const CompletionCall& call_;
  const ApiContext& context_;
  const std::vector<int32_t>& prompt_;
  Utf8Stream utf8_;
  StopMatcher stops_;
  struct Held {
    int64_t start;  // bytes of the answer before its token
    TextLogprob logprob;
  };
  std::vector<Held> held_;  // logprobs of text that may still be cut off
  int64_t bytes_ = 0;       // of the answer, given to the stop matcher
  int64_t characters_ = 0;  // of the text, the prompt's included if it is echoed
  std::vector<SampledToken> prompt_scores_;
  bool started_ = false;  // the first piece is out
  bool ended_ = false;
  bool saw_stop_id_ = false;  // nothing after it counts
  std::string finish_reason_, stop_reason_ = "null";
  std::optional<ApiError> failed_;
  int64_t completion_tokens_ = 0;
  int64_t cached_tokens_ = 0;
};

}  // namespace rose
