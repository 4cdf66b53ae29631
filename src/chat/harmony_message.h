// Harmony's own messages, one level below the API's: what a prompt consists of, in the format's
// terms. Absent and empty differ: an empty recipient prints " to=", an absent one nothing.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/json.h"
#include "chat/chat_format.h"

namespace rose {

struct HarmonyTool {
  std::string name;
  std::string description;
  // A JSON Schema; absent or null: the function takes nothing.
  std::optional<JsonValue> parameters;
};

struct HarmonyNamespace {
  std::string name;
  std::optional<std::string> description;
  std::vector<HarmonyTool> tools;
};

// Printed in byte order of the key, which need not be the name. The key "functions" is the user's.
using HarmonyTools = std::map<std::string, HarmonyNamespace>;

struct HarmonySystem {
  struct Channels {
    std::vector<std::string> valid;
    bool required = true;
  };
  std::optional<std::string> identity;
  std::optional<std::string> knowledge_cutoff;
  std::optional<std::string> date;
  std::optional<ReasoningEffort> effort;
  std::optional<HarmonyTools> tools;  // built into the model: browser, python
  std::optional<Channels> channels;
};

struct HarmonyDeveloper {
  std::optional<std::string> instructions;
  std::optional<HarmonyTools> tools;
  std::optional<ResponseFormat> response_format;
};

using HarmonyContent = std::variant<std::string, HarmonySystem, HarmonyDeveloper>;

struct HarmonyMessage {
  Role role = Role::kUser;
  std::optional<std::string> name;  // a tool must have one
  std::optional<std::string> recipient, channel, content_type;
  std::vector<HarmonyContent> content;
};

}  // namespace rose
