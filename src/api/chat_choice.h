// One choice of an answer: sampled tokens to the API's fields. Streamed or not, it is the same
// path: the whole message is the sum of the deltas.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/error.h"
#include "api/generation.h"
#include "api/stop_matcher.h"
#include "chat/chat_format.h"

namespace rose {

// What a choice says more.
struct ChoiceDelta {
  // kClosed: nothing more comes of the message. One that a stop string ended is not closed.
  enum class Kind { kReasoning, kContent, kCallOpened, kArguments, kClosed };
  Kind kind = Kind::kContent;
  int64_t message = 0;  // of which message, counted over the choice; grows
  std::string text;     // kCallOpened: the function's name
  int64_t call = 0;     // kCallOpened, kArguments: the call's index within the choice
  std::string call_id;
  std::vector<std::string> logprobs;  // kContent: entries as JSON, of the tokens of this text
  bool complete = true;               // kClosed: false if it was cut
};

class ChatChoice {
 public:
  // Both outlive the choice.
  ChatChoice(const Generation& call, const ApiContext& context);

  // Appends what an event adds, neighbours of a kind joined. Nothing once it has ended.
  void Push(const TokenEvent& event, std::vector<ChoiceDelta>& deltas);

  bool ended() const { return ended_; }
  // Once it has ended: "stop", "length" or "tool_calls"; empty if it failed.
  const std::string& finish_reason() const { return finish_reason_; }
  // As JSON: the stop string or stop id that ended it, or null.
  const std::string& stop_reason() const { return stop_reason_; }
  const std::optional<ApiError>& failed() const { return failed_; }

  int64_t completion_tokens() const { return completion_tokens_; }
  int64_t reasoning_tokens() const { return reasoning_tokens_; }
  int64_t cached_tokens() const { return cached_tokens_; }
  // With return_token_ids: what was sampled since the call before.
  std::vector<int32_t> TakeTokenIds() { return std::exchange(token_ids_, {}); }
  const std::vector<int32_t>& token_ids() const { return token_ids_; }  // not taken yet
  // With prompt_logprobs: the prompt's tokens from position 1 on.
  const std::vector<SampledToken>& prompt_scores() const { return prompt_scores_; }
  // Of what the model wrote outside of any message.
  int64_t dropped_bytes() const { return dropped_bytes_; }

 private:
  enum class Field { kNone, kReasoning, kContent, kCall };

  void PushToken(const SampledToken& token);
  Field FieldOf(const std::vector<ChatEvent>& events) const;
  Field TargetField(ChatEvent::Target target) const;
  void Apply(const std::vector<ChatEvent>& events);
  void Begin(const ChatEvent& event);
  void Say(std::string text);
  void SayContent(std::string text);
  void CloseMessage(bool complete);
  void Add(ChoiceDelta delta);
  void ReleaseLogprobs(int64_t limit, std::vector<std::string>& out);
  void End(const TokenEvent& event);
  std::string AfterCall() const;
  void Stop(std::string reason, std::string stop_reason);

  const Generation& call_;
  const ApiContext& context_;
  std::unique_ptr<ChatParser> parser_;
  StopMatcher stops_;
  std::vector<ChoiceDelta>* out_ = nullptr;  // during Push

  Field open_ = Field::kNone;  // where the open message's text goes
  int64_t message_ = -1;       // index of the open message
  bool echoed_ = false;
  int64_t calls_ = 0;
  bool arguments_seen_ = false;  // of the open call

  struct HeldLogprob {
    int64_t start;  // bytes of content before its token
    std::string json;
  };
  std::vector<HeldLogprob> held_logprobs_;
  int64_t content_bytes_ = 0;  // given to the stop matcher

  std::vector<int32_t> token_ids_;
  std::vector<SampledToken> prompt_scores_;
  bool saw_stop_id_ = false;  // nothing after it counts
  int64_t completion_tokens_ = 0, reasoning_tokens_ = 0, cached_tokens_ = 0;
  int64_t dropped_bytes_ = 0;
  bool ended_ = false;
  std::string finish_reason_;
  std::string stop_reason_ = "null";
  std::optional<ApiError> failed_;
};

}  // namespace rose
