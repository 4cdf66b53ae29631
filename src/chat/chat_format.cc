#include "chat/chat_format.h"

#include <algorithm>
#include <cctype>

namespace rose {

std::string_view EffortName(ReasoningEffort effort) {
  switch (effort) {
    case ReasoningEffort::kNone:
      return "none";
    case ReasoningEffort::kLow:
      return "low";
    case ReasoningEffort::kMedium:
      return "medium";
    case ReasoningEffort::kHigh:
      return "high";
  }
  ROSE_CHECK(false, "effort ", static_cast<int>(effort));
}

bool IsFunctionName(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return c < 0x80 && (std::isalnum(c) || c == '_' || c == '-');
  });
}

Status CheckContinued(const ChatRequest& request) {
  const ChatMessage* last = request.messages.empty() ? nullptr : &request.messages.back();
  const bool says_something = last && last->role == Role::kAssistant && last->has_content &&
                              (!last->content.empty() || last->reasoning.empty());
  if (says_something && last->tool_calls.empty()) return Status();
  return InvalidArgument(
      "To be continued, the last message must be a text of the assistant without tool calls.");
}

}  // namespace rose
