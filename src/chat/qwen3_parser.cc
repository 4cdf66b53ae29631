#include "chat/qwen3_parser.h"

#include <algorithm>
#include <utility>

namespace rose {
namespace {

constexpr size_t kMaxRoleBytes =
    64;  // longer is no role: the answer has begun without its line end
constexpr std::string_view kAssistant = "assistant";

using Kind = ChatEvent::Kind;
using Target = ChatEvent::Target;

}  // namespace

Qwen3Parser::Qwen3Parser(const Qwen3Ids& ids, const Tokenizer& tokenizer,
                         std::span<const ToolSpec> tools, bool continues)
    : ids_(ids), tokenizer_(tokenizer), continues_(continues) {
  for (const ToolSpec& tool : tools) tool_names_.insert(tool.name);
}

void Qwen3Parser::Push(int32_t token, Events& events) {
  if (std::exchange(continues_, false)) Begin(Target::kContent, std::string(kAssistant), events);
  if (tokenizer_.IsSpecial(token)) {
    Text(stream_.Finish(), events);
    Marker(token, events);
  } else {
    Text(stream_.Push(tokenizer_.Bytes(token)), events);
  }
}

void Qwen3Parser::Finish(Events& events) {
  if (std::exchange(continues_, false)) Begin(Target::kContent, std::string(kAssistant), events);
  Text(stream_.Finish(), events);
  // A role that is still open is no message, and nor is a call without a name.
  if (place_ == Place::kRole) Drop(std::exchange(role_, {}), events);
  if (place_ == Place::kCall && !is_open_) Drop(call_.text(), events);
  Close(false, place_ == Place::kThoughts ? -1 : 0, events);
  Enter(Place::kBetween);
}

void Qwen3Parser::Marker(int32_t token, Events& events) {
  if (place_ == Place::kRole) EndRole(events);
  if (token == ids_.start || token == ids_.end || token == ids_.end_of_text) {
    if (place_ == Place::kCall) EndCall(events);
    Close(true, place_ == Place::kThoughts ? -1 : 0, events);
    Enter(token == ids_.start ? Place::kRole : Place::kBetween);
  } else if (place_ == Place::kResponse && token == ids_.end_response) {
    Close(true, 0, events);
    Enter(Place::kAnswer);
  } else if (place_ == Place::kHidden || place_ == Place::kResponse) {
    Drop(tokenizer_.Bytes(token), events);
  } else if (token == ids_.think && place_ != Place::kThoughts) {
    if (place_ == Place::kCall) EndCall(events);
    Close(true, 0, events);
    Enter(Place::kThoughts);
  } else if (token == ids_.end_think && place_ == Place::kThoughts) {
    Close(true, -1, events);
    Enter(Place::kAnswer);
  } else if (token == ids_.call) {
    // Thoughts that were not closed end here as well.
    if (place_ == Place::kCall) EndCall(events);
    Close(true, place_ == Place::kThoughts ? -1 : 1, events);
    call_ = CallJson();
    is_thought_ = false;
    Enter(Place::kCall);
  } else if (token == ids_.end_call && place_ == Place::kCall) {
    EndCall(events);
    Close(true, 0, events);
    Enter(Place::kAnswer);
  } else if (token == ids_.response && place_ != Place::kCall) {
    Close(true, place_ == Place::kThoughts ? -1 : 0, events);
    Begin(Target::kHidden, "tool", events);
    Enter(Place::kResponse);
  } else {
    Drop(tokenizer_.Bytes(token), events);
  }
}

void Qwen3Parser::Text(std::string text, Events& events) {
  if (text.empty()) return;
  switch (place_) {
    case Place::kAnswer:
      return BodyText(std::move(text), Target::kContent, events);
    case Place::kThoughts:
      return BodyText(std::move(text), Target::kReasoning, events);
    case Place::kCall:
      return CallText(text, events);
    case Place::kRole:
      return RoleText(std::move(text), events);
    case Place::kHidden:
    case Place::kResponse:
      return Emit(std::move(text), events);
    case Place::kBetween:
      if (text.find_first_not_of('\n') != text.npos) Drop(text, events);
      return;
  }
}

void Qwen3Parser::BodyText(std::string text, Target target, Events& events) {
  if (!is_open_) {
    text.erase(0, std::min(text.find_first_not_of('\n'), text.size()));
    if (text.empty()) return;
    Begin(target, std::string(kAssistant), events);
  }
  text.insert(0, std::exchange(held_, {}));
  const size_t last = text.find_last_not_of('\n');
  held_ = text.substr(last == text.npos ? 0 : last + 1);
  text.resize(text.size() - held_.size());
  Emit(std::move(text), events);
}

void Qwen3Parser::RoleText(std::string text, Events& events) {
  role_ += text;
  const size_t line_end = role_.find('\n');
  if (line_end == role_.npos) {
    if (role_.size() <= kMaxRoleBytes) return;
    Enter(Place::kAnswer);
    return BodyText(std::exchange(role_, {}), Target::kContent, events);
  }
  std::string rest = role_.substr(line_end + 1);
  role_.resize(line_end);
  EndRole(events);
  Text(std::move(rest), events);
}

void Qwen3Parser::EndRole(Events& events) {
  std::string role = std::exchange(role_, {});
  if (role == kAssistant || role.empty()) return Enter(Place::kAnswer);
  Begin(Target::kHidden, std::move(role), events);
  Enter(Place::kHidden);
}

void Qwen3Parser::CallText(const std::string& text, Events& events) {
  if (is_thought_) return BodyText(text, Target::kReasoning, events);
  const bool was_named = call_.state() == CallJson::State::kNamed;
  call_.Push(text);
  const bool is_named = call_.state() == CallJson::State::kNamed;
  if (call_.state() == CallJson::State::kBroken ||
      (is_named && !was_named && !IsCallable(call_.name()))) {
    is_thought_ = true;
    return BodyText(call_.text(), Target::kReasoning, events);
  }
  if (!is_named) return;
  if (!was_named) {
    Begin(Target::kToolCall, std::string(kAssistant), events);
    events.back().tool_name = events.back().recipient = call_.name();
  }
  Emit(call_.TakeArguments(), events);
}

// A call that nobody can make is a thought.
void Qwen3Parser::EndCall(Events& events) {
  if (!is_thought_ && call_.state() == CallJson::State::kUnnamed)
    BodyText(call_.text(), Target::kReasoning, events);
  if (target_ == Target::kReasoning) held_.clear();
}

bool Qwen3Parser::IsCallable(std::string_view name) const {
  return tool_names_.contains(name) || IsFunctionName(name);
}

void Qwen3Parser::Begin(Target target, std::string author, Events& events) {
  events.push_back({.kind = Kind::kBegin, .target = target, .author = std::move(author)});
  if (target == Target::kReasoning) events.back().channel = "think";
  target_ = target;
  is_open_ = true;
}

void Qwen3Parser::Close(bool complete, int64_t line_ends, Events& events) {
  std::string rest = std::exchange(held_, {});
  if (!std::exchange(is_open_, false)) return;
  const auto size = static_cast<int64_t>(rest.size());
  rest.resize(line_ends < 0 ? 0 : std::max<int64_t>(0, size - line_ends));
  Emit(std::move(rest), events);
  events.push_back({.kind = Kind::kEnd, .target = target_, .complete = complete});
}

void Qwen3Parser::Emit(std::string text, Events& events) {
  if (text.empty()) return;
  events.push_back({.kind = Kind::kText, .target = target_, .text = std::move(text)});
}

void Qwen3Parser::Drop(std::string_view text, Events& events) {
  if (text.empty()) return;
  events.push_back({.kind = Kind::kDropped, .text = std::string(text)});
}

}  // namespace rose
