#include "api/chat_choice.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "api/json_writer.h"
#include "api/logprob_json.h"

namespace rose {
namespace {

constexpr int64_t kAll = std::numeric_limits<int64_t>::max();

bool Contains(const std::vector<int32_t>& ids, int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

ChatChoice::ChatChoice(const Generation& call, const ApiContext& context)
    : call_(call),
      context_(context),
      parser_(context.format->NewParser(call.chat.tools, call.chat.continue_final)),
      stops_(call.stop, call.include_stop) {}

void ChatChoice::Push(const TokenEvent& event, std::vector<ChoiceDelta>& deltas) {
  if (ended_) return;
  out_ = &deltas;
  cached_tokens_ = std::max(cached_tokens_, event.cached_tokens);
  prompt_scores_.insert(prompt_scores_.end(), event.prompt.begin(), event.prompt.end());
  if (!std::exchange(echoed_, true) && !call_.echo.empty())
    Add({.kind = ChoiceDelta::Kind::kContent, .text = call_.echo});
  for (const SampledToken& token : event.tokens) {
    if (saw_stop_id_ || ended_) break;
    ++completion_tokens_;
    if (call_.return_token_ids) token_ids_.push_back(token.id);
    saw_stop_id_ = Contains(call_.request.stop_ids, token.id);
    // A stop id of the request's own is not part of the answer.
    if (!saw_stop_id_ || Contains(context_.format->stop_ids(), token.id)) PushToken(token);
    // The model would go on after a call that it closed with another marker.
    const bool one_call = call_.only_one_call && calls_ > 0 && open_ != Field::kCall;
    if (one_call && !saw_stop_id_) Stop(AfterCall(), "null");
  }
  if (!ended_ && event.finish != FinishReason::kNone) End(event);
  out_ = nullptr;
}

void ChatChoice::PushToken(const SampledToken& token) {
  std::vector<ChatEvent> events;
  parser_->Push(token.id, events);
  const Field field = FieldOf(events);
  if (field == Field::kReasoning) ++reasoning_tokens_;
  if (field == Field::kContent && call_.request.sampling.logprobs >= 0)
    held_logprobs_.push_back(
        {content_bytes_, LogprobJson(token, *context_.tokenizer, call_.tokens_as_ids)});
  Apply(events);
}

// Of what the token belongs to whose events these are. That is a body if the message was open
// before it and is open after, or if the token itself is the first of its text: not every format
// opens a message with a marker.
ChatChoice::Field ChatChoice::FieldOf(const std::vector<ChatEvent>& events) const {
  Field field = open_;
  bool has_text = true;
  for (const ChatEvent& event : events) {
    if (event.kind == ChatEvent::Kind::kEnd) field = Field::kNone;
    if (event.kind == ChatEvent::Kind::kBegin) {
      field = TargetField(event.target);
      has_text = false;
    }
    if (event.kind == ChatEvent::Kind::kText) has_text = true;
  }
  return has_text ? field : Field::kNone;
}

void ChatChoice::Apply(const std::vector<ChatEvent>& events) {
  for (const ChatEvent& event : events) {
    if (ended_) return;
    switch (event.kind) {
      case ChatEvent::Kind::kBegin:
        Begin(event);
        break;
      case ChatEvent::Kind::kText:
        Say(event.text);
        break;
      case ChatEvent::Kind::kEnd:
        CloseMessage(event.complete);
        break;
      case ChatEvent::Kind::kDropped:
        dropped_bytes_ += static_cast<int64_t>(event.text.size());
        break;
    }
  }
}

ChatChoice::Field ChatChoice::TargetField(ChatEvent::Target target) const {
  switch (target) {
    case ChatEvent::Target::kHidden:
      return Field::kNone;
    case ChatEvent::Target::kReasoning:
      return Field::kReasoning;
    case ChatEvent::Target::kContent:
      return Field::kContent;
    case ChatEvent::Target::kToolCall:
      // A call that nobody asked for is a thought: to be seen, not to be acted on.
      return call_.calls_allowed ? Field::kCall : Field::kReasoning;
  }
  ROSE_CHECK(false, "target ", static_cast<int>(target));
}

void ChatChoice::Begin(const ChatEvent& event) {
  ++message_;
  open_ = TargetField(event.target);
  if (open_ != Field::kCall) return;
  arguments_seen_ = false;
  Add({.kind = ChoiceDelta::Kind::kCallOpened,
       .text = event.tool_name,
       .call = calls_++,
       .call_id = context_.NewId("call_")});
}

void ChatChoice::Say(std::string text) {
  switch (open_) {
    case Field::kNone:
      return;
    case Field::kReasoning:
      if (call_.include_reasoning)
        Add({.kind = ChoiceDelta::Kind::kReasoning, .text = std::move(text)});
      return;
    case Field::kContent:
      content_bytes_ += static_cast<int64_t>(text.size());
      SayContent(stops_.Push(text));
      if (const auto& stop = stops_.matched()) {
        std::string reason;
        JsonWriter(reason).String(*stop);
        Stop("stop", reason);
      }
      return;
    case Field::kCall:
      arguments_seen_ = true;
      Add({.kind = ChoiceDelta::Kind::kArguments, .text = std::move(text), .call = calls_ - 1});
      return;
  }
}

void ChatChoice::SayContent(std::string text) {
  if (text.empty()) return;
  ChoiceDelta delta{.kind = ChoiceDelta::Kind::kContent};
  ReleaseLogprobs(stops_.released_bytes(), delta.logprobs);
  delta.text = std::move(text);
  Add(std::move(delta));
}

void ChatChoice::CloseMessage(bool complete) {
  if (open_ == Field::kContent) {
    SayContent(stops_.Flush());
    // Tokens that came to nothing, such as half a character.
    ChoiceDelta rest{.kind = ChoiceDelta::Kind::kContent};
    ReleaseLogprobs(kAll, rest.logprobs);
    if (!rest.logprobs.empty()) Add(std::move(rest));
  }
  // A function without parameters: the model may leave the body empty, but clients parse JSON.
  if (open_ == Field::kCall && complete && !arguments_seen_)
    Add({.kind = ChoiceDelta::Kind::kArguments, .text = "{}", .call = calls_ - 1});
  if (open_ != Field::kNone) Add({.kind = ChoiceDelta::Kind::kClosed, .complete = complete});
  open_ = Field::kNone;
}

void ChatChoice::Add(ChoiceDelta delta) {
  delta.message = message_;
  if (!out_->empty()) {
    ChoiceDelta& last = out_->back();
    if (last.kind == delta.kind && last.message == delta.message) {
      last.text += delta.text;
      std::move(delta.logprobs.begin(), delta.logprobs.end(), std::back_inserter(last.logprobs));
      return;
    }
  }
  out_->push_back(std::move(delta));
}

void ChatChoice::ReleaseLogprobs(int64_t limit, std::vector<std::string>& out) {
  size_t count = 0;
  for (; count < held_logprobs_.size() && held_logprobs_[count].start < limit; ++count)
    out.push_back(std::move(held_logprobs_[count].json));
  held_logprobs_.erase(held_logprobs_.begin(), held_logprobs_.begin() + count);
}

void ChatChoice::End(const TokenEvent& event) {
  failed_ = FailureOf(event);
  if (failed_) {
    ended_ = true;
    return;
  }
  std::vector<ChatEvent> events;
  parser_->Finish(events);
  Apply(events);
  if (ended_) return;
  const bool stopped = event.finish == FinishReason::kStop;
  std::string stop_reason = "null";
  // The format's end of an answer goes without saying; a marker that ends calls and the request's
  // own ids do not.
  const std::vector<int32_t>& ends = context_.format->stop_ids();
  if (stopped && event.stop_id &&
      (!Contains(ends, *event.stop_id) || (calls_ > 0 && *event.stop_id != ends.front())))
    stop_reason = std::to_string(*event.stop_id);
  Stop(!stopped ? "length" : calls_ > 0 ? AfterCall() : "stop", stop_reason);
}

// A call that the request named is what it asked for, not the model's choice.
std::string ChatChoice::AfterCall() const {
  return call_.only_call.empty() ? "tool_calls" : "stop";
}

void ChatChoice::Stop(std::string reason, std::string stop_reason) {
  ended_ = true;
  finish_reason_ = std::move(reason);
  stop_reason_ = std::move(stop_reason);
}

}  // namespace rose
