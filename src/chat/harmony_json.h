// Harmony messages in their JSON form, as the reference library writes them: a list of {"role",
// "name", "channel", "recipient", "content_type", "content"}, where absent and null are the same,
// and one {"role", "channel", "recipient", "content_type", "text"} for each message of a parsed
// stream.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "chat/harmony_message.h"
#include "chat/harmony_render.h"

namespace rose {

// kInvalidArgument names the message and the field.
Result<std::vector<HarmonyMessage>> HarmonyMessagesFromJson(const JsonValue& messages);

struct HarmonyRendering {
  std::vector<HarmonyMessage> messages;
  HarmonyRenderOptions options;
};

// {"messages", "for": "conversation" | "completion" | "training", "next_role",
// "auto_drop_analysis"}: absent, they are "completion", "assistant" and true, which is the
// reference's rule for dropping thoughts. Other members are ignored. A list alone is the messages.
Result<HarmonyRendering> HarmonyRenderingFromJson(const JsonValue& json);

// {"messages": [...]}, from the events of a whole stream. "role" is what stands in its place in the
// header, for a tool its name; what is absent is null.
std::string HarmonyMessagesToJson(std::span<const ChatEvent> events);

}  // namespace rose
