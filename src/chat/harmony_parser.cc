#include "chat/harmony_parser.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace rose {
namespace {

// A longer header is no header: the model has begun to answer without <|message|>.
constexpr int64_t kMaxHeaderTokens = 256;
constexpr size_t kMaxHeldBytes = 4096;  // of text between messages

using Kind = ChatEvent::Kind;
using Target = ChatEvent::Target;

bool IsAnalysis(std::string_view channel) {
  constexpr std::string_view kAnalysis = "analysis";
  return channel.size() >= kAnalysis.size() &&
         std::equal(kAnalysis.begin(), kAnalysis.end(), channel.begin(),
                    [](char a, unsigned char b) { return a == std::tolower(b); });
}

std::string PlainText(std::string text) {
  std::erase_if(text, [](char c) { return c == kHeaderChannel || c == kHeaderConstrain; });
  return text;
}

}  // namespace

HarmonyParser::HarmonyParser(const HarmonyIds& ids, const Tokenizer& tokenizer,
                             std::span<const ToolSpec> tools, Start start)
    : ids_(ids),
      tokenizer_(tokenizer),
      state_(start == Start::kAssistantHeader   ? State::kHeader
             : start == Start::kBetweenMessages ? State::kBetween
                                                : State::kBody),
      continues_(start == Start::kFinalBody) {
  for (const ToolSpec& tool : tools) tool_names_.insert(tool.name);
}

void HarmonyParser::BeginContinued(std::vector<ChatEvent>& events) {
  if (!std::exchange(continues_, false)) return;
  events.push_back(BeginEvent({.channel = "final"}));
  target_ = events.back().target;
}

void HarmonyParser::Push(int32_t token, std::vector<ChatEvent>& events) {
  BeginContinued(events);
  switch (state_) {
    case State::kBetween:
      return PushBetween(token, events);
    case State::kHeader:
      return PushHeader(token, events);
    case State::kBody:
      return PushBody(token, events);
  }
}

void HarmonyParser::Finish(std::vector<ChatEvent>& events) {
  BeginContinued(events);
  if (state_ == State::kBody) {
    EndBody(false, events);
  } else {
    EmitDropped(PlainText(std::exchange(text_, {}) + stream_.Finish()), events);
  }
  state_ = State::kBetween;
}

bool HarmonyParser::ClosesMessage(int32_t token) const {
  return token == ids_.end || token == ids_.return_ || token == ids_.call ||
         token == ids_.end_of_text;
}

void HarmonyParser::PushBetween(int32_t token, std::vector<ChatEvent>& events) {
  if (token == ids_.start || token == ids_.channel) {
    OpenHeader(token == ids_.start, events);
    if (token == ids_.channel) text_ += kHeaderChannel;
  } else if (token == ids_.message) {
    OpenHeader(false, events);
    BeginBody(HeaderForm::kComplete, events);
  } else if (!tokenizer_.IsSpecial(token)) {
    text_ += stream_.Push(tokenizer_.Bytes(token));
    if (text_.size() > kMaxHeldBytes) EmitDropped(std::exchange(text_, {}), events);
  }
}

void HarmonyParser::PushHeader(int32_t token, std::vector<ChatEvent>& events) {
  if (token == ids_.message) {
    BeginBody(HeaderForm::kComplete, events);
  } else if (token == ids_.channel || token == ids_.constrain) {
    text_ += stream_.Finish();
    text_ += token == ids_.channel ? kHeaderChannel : kHeaderConstrain;
  } else if (token == ids_.start) {
    AbandonHeader(events);
    OpenHeader(true, events);
  } else if (ClosesMessage(token)) {
    AbandonHeader(events);
  } else if (!tokenizer_.IsSpecial(token)) {
    text_ += stream_.Push(tokenizer_.Bytes(token));
  }
  if (state_ == State::kHeader && ++header_tokens_ > kMaxHeaderTokens)
    BeginBody(HeaderForm::kUnfinished, events);
}

void HarmonyParser::PushBody(int32_t token, std::vector<ChatEvent>& events) {
  if (ClosesMessage(token)) {
    EndBody(true, events);
  } else if (token == ids_.start || token == ids_.channel) {
    EndBody(true, events);
    PushBetween(token, events);
  } else if (tokenizer_.IsSpecial(token)) {
    EmitDropped(std::string(tokenizer_.Bytes(token)), events);
  } else {
    EmitText(stream_.Push(tokenizer_.Bytes(token)), events);
  }
}

void HarmonyParser::OpenHeader(bool names_author, std::vector<ChatEvent>& events) {
  EmitDropped(std::exchange(text_, {}) + stream_.Finish(), events);
  state_ = State::kHeader;
  names_author_ = names_author;
  header_tokens_ = 0;
}

void HarmonyParser::BeginBody(HeaderForm form, std::vector<ChatEvent>& events) {
  text_ += stream_.Finish();
  const HarmonyHeader header = ParseHarmonyHeader(std::exchange(text_, {}), names_author_, form);
  EmitDropped(header.dropped, events);
  events.push_back(BeginEvent(header));
  target_ = events.back().target;
  state_ = State::kBody;
  EmitText(header.body, events);
}

void HarmonyParser::EndBody(bool complete, std::vector<ChatEvent>& events) {
  EmitText(stream_.Finish(), events);
  events.push_back({.kind = Kind::kEnd, .target = target_, .complete = complete});
  state_ = State::kBetween;
}

void HarmonyParser::AbandonHeader(std::vector<ChatEvent>& events) {
  text_ += stream_.Finish();
  const HarmonyHeader header = ParseHarmonyHeader(text_, names_author_, HeaderForm::kUnfinished);
  // A call is complete without arguments; any other message needs something to say.
  if (header.body.empty() && BeginEvent(header).target != Target::kToolCall) {
    EmitDropped(PlainText(std::exchange(text_, {})), events);
    state_ = State::kBetween;
    return;
  }
  BeginBody(HeaderForm::kUnfinished, events);
  EndBody(true, events);
}

void HarmonyParser::EmitText(std::string text, std::vector<ChatEvent>& events) {
  if (text.empty()) return;
  events.push_back({.kind = Kind::kText, .target = target_, .text = std::move(text)});
}

void HarmonyParser::EmitDropped(std::string text, std::vector<ChatEvent>& events) {
  if (text.empty()) return;
  events.push_back({.kind = Kind::kDropped, .text = std::move(text)});
}

ChatEvent HarmonyParser::BeginEvent(const HarmonyHeader& header) const {
  ChatEvent event{.kind = Kind::kBegin,
                  .author = header.author,
                  .channel = header.channel,
                  .recipient = header.recipient,
                  .content_type = header.content_type};
  if (header.author != "assistant") {
    event.target = Target::kHidden;
    return event;
  }
  const std::string& recipient = header.recipient;
  if (recipient.empty() || recipient == "all" || recipient == "user") {
    event.target = IsAnalysis(header.channel) ? Target::kReasoning : Target::kContent;
    return event;
  }
  constexpr std::string_view kPrefix = "functions.";
  const bool prefixed = recipient.starts_with(kPrefix);
  const std::string name = prefixed ? recipient.substr(kPrefix.size()) : recipient;
  if (tool_names_.contains(name) || (prefixed && IsFunctionName(name))) {
    event.tool_name = name;
  } else if (tool_names_.contains(recipient)) {
    event.tool_name = recipient;
  }
  // What speaks to somebody that is not there is thought, not answer.
  event.target = event.tool_name.empty() ? Target::kReasoning : Target::kToolCall;
  return event;
}

}  // namespace rose
