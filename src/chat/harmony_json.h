// Harmony messages in their JSON form: a list of {"role", "name", "channel", "recipient",
// "content_type", "content"}, as the reference library writes them. Absent and null are the same.
#pragma once

#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "chat/harmony_message.h"

namespace rose {

// kInvalidArgument names the message and the field.
Result<std::vector<HarmonyMessage>> HarmonyMessagesFromJson(const JsonValue& messages);

}  // namespace rose
