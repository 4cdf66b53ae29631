#include "api/completion_choice.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "api/json_writer.h"

namespace rose {
namespace {

constexpr int64_t kAll = std::numeric_limits<int64_t>::max();

bool Contains(const std::vector<int32_t>& ids, int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

int64_t Characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

}  // namespace

CompletionChoice::CompletionChoice(const CompletionCall& call, const ApiContext& context,
                                   const std::vector<int32_t>& prompt)
    : call_(call), context_(context), prompt_(prompt), stops_(call.stop, call.include_stop) {}

CompletionPiece CompletionChoice::Push(const TokenEvent& event) {
  CompletionPiece piece;
  if (ended_) return piece;
  cached_tokens_ = std::max(cached_tokens_, event.cached_tokens);
  prompt_scores_.insert(prompt_scores_.end(), event.prompt.begin(), event.prompt.end());
  if (event.tokens.empty() && event.finish == FinishReason::kNone) return piece;
  if (!std::exchange(started_, true) && call_.echo) Echo(piece);
  if (call_.only_prompt && !FailureOf(event)) {
    ended_ = true;
    finish_reason_ = "length";
    return piece;
  }
  for (const SampledToken& token : event.tokens) {
    if (saw_stop_id_ || ended_) break;
    ++completion_tokens_;
    PushToken(token, piece);
  }
  if (!ended_ && event.finish != FinishReason::kNone) End(event, piece);
  return piece;
}

// The prompt, in front of the answer. A character that begins in the prompt may end in the answer.
void CompletionChoice::Echo(CompletionPiece& piece) {
  for (size_t i = 0; i < prompt_.size(); ++i) {
    if (call_.logprobs >= 0) {
      TextLogprob entry{.has_logprob = i > 0, .offset = characters_};
      if (i == 0) entry.token.id = prompt_[0];
      if (i > 0 && i - 1 < prompt_scores_.size()) {
        entry.token = prompt_scores_[i - 1];
        // prompt_logprobs may have asked for more.
        entry.token.top.resize(std::min<size_t>(entry.token.top.size(), call_.logprobs));
      }
      piece.logprobs.push_back(std::move(entry));
    }
    piece.text += Append(utf8_.Push(context_.tokenizer->Bytes(prompt_[i])));
  }
}

std::string CompletionChoice::Append(std::string text) {
  characters_ += Characters(text);
  return text;
}

void CompletionChoice::PushToken(const SampledToken& token, CompletionPiece& piece) {
  if (call_.return_token_ids) piece.token_ids.push_back(token.id);
  if (call_.logprobs >= 0) held_.push_back({bytes_, {.token = token, .offset = characters_}});
  saw_stop_id_ = Contains(call_.request.stop_ids, token.id);
  const bool hidden = call_.skip_special && context_.tokenizer->IsControl(token.id);
  if (hidden || (saw_stop_id_ && !call_.include_stop)) return;
  const std::string text = Append(utf8_.Push(context_.tokenizer->Bytes(token.id)));
  bytes_ += std::ssize(text);
  piece.text += stops_.Push(text);
  Release(stops_.released_bytes(), piece);
  if (const auto& stop = stops_.matched()) {
    ended_ = true;
    finish_reason_ = "stop";
    stop_reason_.clear();
    JsonWriter(stop_reason_).String(*stop);
  }
}

void CompletionChoice::Release(int64_t limit, CompletionPiece& piece) {
  size_t count = 0;
  for (; count < held_.size() && held_[count].start < limit; ++count)
    piece.logprobs.push_back(std::move(held_[count].logprob));
  held_.erase(held_.begin(), held_.begin() + static_cast<int64_t>(count));
}

void CompletionChoice::End(const TokenEvent& event, CompletionPiece& piece) {
  ended_ = true;
  failed_ = FailureOf(event);
  if (failed_) return;
  piece.text += stops_.Push(Append(utf8_.Finish()));
  finish_reason_ = event.finish == FinishReason::kStop ? "stop" : "length";
  if (const auto& stop = stops_.matched()) {
    finish_reason_ = "stop";
    stop_reason_.clear();
    JsonWriter(stop_reason_).String(*stop);
    return;
  }
  piece.text += stops_.Flush();
  Release(kAll, piece);
  // The format's end of an answer goes without saying; the request's own ids do not.
  if (event.stop_id && !Contains(context_.format->stop_ids(), *event.stop_id))
    stop_reason_ = std::to_string(*event.stop_id);
}

}  // namespace rose
