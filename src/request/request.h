// What the engine is asked, and what it answers: token ids and numbers, no text and no format.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "request/token_constraint.h"

namespace rose {

using RequestId = uint64_t;

// How the next token is drawn. Defaults draw from the model's own distribution.
struct SamplingParams {
  double temperature = 1.0;  // 0 = greedy
  double top_p = 1.0;
  int top_k = 0;  // 0 = off
  double min_p = 0.0;
  double presence_penalty = 0.0;
  double frequency_penalty = 0.0;
  double repetition_penalty = 1.0;
  // Seed and position decide a draw, never the batch. Without a seed the engine picks one.
  std::optional<uint64_t> seed;
  std::vector<std::pair<int32_t, float>> logit_bias;  // added to the logits
  std::vector<int32_t> allowed_ids;                   // nothing else is drawn; empty = all
  // Sequences of >= 1 tokens: the last token of one is not drawn where the output ends with the
  // tokens before it.
  std::vector<std::vector<int32_t>> bad_words;
  int logprobs = -1;  // -1 = none, n = the drawn token's and those of the n most likely
  std::vector<int32_t> logprob_ids;  // with logprobs >= 0: these too, behind the n
};

// kExpired: its time was over (Request::start_by, Request::deadline).
enum class FinishReason { kNone, kStop, kLength, kCancelled, kExpired, kError };

struct TokenLogprob {
  int32_t id = 0;
  float logprob = 0;  // of the model's own distribution (before temperature and filters)
};

struct SampledToken {
  int32_t id = 0;
  float logprob = 0;  // filled if logprobs >= 0
  // The `logprobs` most likely, most likely first, then logprob_ids as they were given.
  std::vector<TokenLogprob> top;
};

// News of one request. Exactly one event, the last, has finish != kNone.
struct TokenEvent {
  RequestId id = 0;
  std::vector<SampledToken> tokens;  // a matched stop id is included as the last token
  // With prompt_logprobs: the prompt's tokens from position 1 on, each once and in order, spread
  // over the events up to the one with the first token. Their top has prompt_logprobs entries.
  std::vector<SampledToken> prompt;
  FinishReason finish = FinishReason::kNone;
  std::optional<int32_t> stop_id;  // the stop id that ended it
  int64_t cached_tokens = 0;       // prompt tokens taken from the prefix cache
  double queued_ms = -1;           // from Submit to its first step; -1 = it never ran
  std::string error;               // with kError
};

struct Request {
  std::vector<int32_t> prompt;  // >= 1 token, each in [0, vocab)
  int64_t max_tokens = 0;       // >= 1; prompt + max_tokens <= the engine's context length
  int64_t min_tokens = 0;       // stop ids are not drawn before this many tokens
  std::vector<int32_t> stop_ids;
  SamplingParams sampling;
  int64_t prompt_logprobs = -1;  // -1 = none, n = the prompt tokens' and those of the n most likely
  // Requests of different salts share no cached pages.
  std::string cache_salt;
  std::chrono::steady_clock::time_point submitted;  // set by Engine::Submit
  // Lower is served first. One step of priority counts like one second of arrival: a request of
  // priority 5 stands behind those of priority 0 that come within 5 seconds after it, and before
  // all later ones, so that nobody waits for ever.
  int64_t priority = 0;
  // It ends with kExpired where its first step has not begun, or its last event is not out, by
  // then.
  static constexpr auto kNever = std::chrono::steady_clock::time_point::max();
  std::chrono::steady_clock::time_point start_by = kNever, deadline = kNever;
  std::shared_ptr<TokenConstraint> constraint;  // this request's own; null = none
  // Called on the engine's thread, in order; must not block or call the engine.
  std::function<void(const TokenEvent&)> on_event;
};

}  // namespace rose
