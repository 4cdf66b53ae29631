// The bodies of Harmony's system and developer messages (spec D.3 to D.5).
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "chat/harmony_message.h"

namespace rose {

std::string_view RoleName(Role role);  // "assistant"

// `has_functions`: some developer message of the conversation declares functions, which the list of
// channels then mentions.
Result<std::string> SystemText(const HarmonySystem& system, bool has_functions);
Result<std::string> DeveloperText(const HarmonyDeveloper& developer);

}  // namespace rose
