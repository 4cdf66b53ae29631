// The tools that gpt-oss knows by training: browser and python (spec D.7).
#pragma once

#include <optional>
#include <string_view>

#include "chat/harmony_message.h"

namespace rose {

// As the system message declares it; nothing for another name.
std::optional<HarmonyNamespace> BuiltinTool(std::string_view name);

}  // namespace rose
