#include "chat/harmony_json.h"

#include <string>

namespace rose {
namespace {

// A member that is present and not null; else nullptr.
const JsonValue* Get(const JsonValue& object, std::string_view key) {
  const JsonValue* value = object.Find(key);
  return value && !value->is_null() ? value : nullptr;
}

Status GetString(const JsonValue& object, std::string_view key, std::optional<std::string>& out) {
  const JsonValue* value = Get(object, key);
  if (!value) return Status();
  if (!value->string()) return InvalidArgument("\"", key, "\" must be a string.");
  out = *value->string();
  return Status();
}

Status GetTools(const JsonValue& object, std::optional<HarmonyTools>& out) {
  const JsonValue* value = Get(object, "tools");
  if (!value) return Status();
  if (!value->object()) return InvalidArgument("\"tools\" must be an object of namespaces.");
  out.emplace();
  for (const auto& [key, json] : *value->object()) {
    HarmonyNamespace& space = (*out)[key];
    std::optional<std::string> name;
    ROSE_RETURN_IF_ERROR(GetString(json, "name", name));
    ROSE_RETURN_IF_ERROR(GetString(json, "description", space.description));
    space.name = name.value_or(key);
    const JsonValue* tools = Get(json, "tools");
    if (!tools || !tools->array())
      return InvalidArgument("namespace \"", key, "\" needs a list \"tools\".");
    for (const JsonValue& tool : *tools->array()) {
      std::optional<std::string> tool_name, description;
      ROSE_RETURN_IF_ERROR(GetString(tool, "name", tool_name));
      ROSE_RETURN_IF_ERROR(GetString(tool, "description", description));
      if (!tool_name) return InvalidArgument("a tool of \"", key, "\" has no name.");
      const JsonValue* parameters = Get(tool, "parameters");
      space.tools.push_back({*tool_name, description.value_or(""),
                             parameters ? std::optional(*parameters) : std::nullopt});
    }
  }
  return Status();
}

Status GetEffort(const JsonValue& json, std::optional<ReasoningEffort>& out) {
  std::optional<std::string> text;
  ROSE_RETURN_IF_ERROR(GetString(json, "reasoning_effort", text));
  if (!text) return Status();
  if (*text == "Low") {
    out = ReasoningEffort::kLow;
  } else if (*text == "Medium") {
    out = ReasoningEffort::kMedium;
  } else if (*text == "High") {
    out = ReasoningEffort::kHigh;
  } else {
    return InvalidArgument("\"reasoning_effort\" must be Low, Medium or High, not ", *text, ".");
  }
  return Status();
}

Status GetChannels(const JsonValue& json, std::optional<HarmonySystem::Channels>& out) {
  const JsonValue* config = Get(json, "channel_config");
  if (!config) return Status();
  out = HarmonySystem::Channels{};
  const JsonValue* valid = Get(*config, "valid_channels");
  if (!valid || !valid->array())
    return InvalidArgument("\"channel_config\" needs a list \"valid_channels\".");
  for (const JsonValue& channel : *valid->array()) {
    if (!channel.string()) return InvalidArgument("\"valid_channels\" must hold strings.");
    out->valid.push_back(*channel.string());
  }
  const JsonValue* required = Get(*config, "channel_required");
  if (!required || !required->boolean())
    return InvalidArgument("\"channel_config\" needs a boolean \"channel_required\".");
  out->required = *required->boolean();
  return Status();
}

Result<HarmonyContent> ContentFromJson(const JsonValue& json) {
  std::optional<std::string> type;
  ROSE_RETURN_IF_ERROR(GetString(json, "type", type));
  if (type == "text") {
    std::optional<std::string> text;
    ROSE_RETURN_IF_ERROR(GetString(json, "text", text));
    if (!text) return InvalidArgument("a text part needs a string \"text\".");
    return HarmonyContent(*text);
  }
  if (type == "system_content") {
    HarmonySystem system;
    ROSE_RETURN_IF_ERROR(GetString(json, "model_identity", system.identity));
    ROSE_RETURN_IF_ERROR(GetString(json, "knowledge_cutoff", system.knowledge_cutoff));
    ROSE_RETURN_IF_ERROR(GetString(json, "conversation_start_date", system.date));
    ROSE_RETURN_IF_ERROR(GetEffort(json, system.effort));
    ROSE_RETURN_IF_ERROR(GetTools(json, system.tools));
    ROSE_RETURN_IF_ERROR(GetChannels(json, system.channels));
    return HarmonyContent(std::move(system));
  }
  if (type == "developer_content") {
    HarmonyDeveloper developer;
    ROSE_RETURN_IF_ERROR(GetString(json, "instructions", developer.instructions));
    ROSE_RETURN_IF_ERROR(GetTools(json, developer.tools));
    return HarmonyContent(std::move(developer));
  }
  return InvalidArgument("a part's \"type\" must be text, system_content or developer_content.");
}

Result<HarmonyMessage> MessageFromJson(const JsonValue& json) {
  HarmonyMessage message;
  std::optional<std::string> role;
  ROSE_RETURN_IF_ERROR(GetString(json, "role", role));
  if (role == "system") {
    message.role = Role::kSystem;
  } else if (role == "developer") {
    message.role = Role::kDeveloper;
  } else if (role == "user") {
    message.role = Role::kUser;
  } else if (role == "assistant") {
    message.role = Role::kAssistant;
  } else if (role == "tool") {
    message.role = Role::kTool;
  } else {
    return InvalidArgument("\"role\" must be system, developer, user, assistant or tool.");
  }
  ROSE_RETURN_IF_ERROR(GetString(json, "name", message.name));
  ROSE_RETURN_IF_ERROR(GetString(json, "recipient", message.recipient));
  ROSE_RETURN_IF_ERROR(GetString(json, "channel", message.channel));
  ROSE_RETURN_IF_ERROR(GetString(json, "content_type", message.content_type));
  const JsonValue* content = Get(json, "content");
  if (content && content->string()) {
    message.content.push_back(*content->string());
  } else if (content && content->array()) {
    for (const JsonValue& part : *content->array()) {
      ROSE_ASSIGN_OR_RETURN(HarmonyContent parsed, ContentFromJson(part));
      message.content.push_back(std::move(parsed));
    }
  } else {
    return InvalidArgument("\"content\" must be a string or a list of parts.");
  }
  return message;
}

}  // namespace

Result<std::vector<HarmonyMessage>> HarmonyMessagesFromJson(const JsonValue& messages) {
  if (!messages.array()) return InvalidArgument("The messages must be a list.");
  std::vector<HarmonyMessage> out;
  for (const JsonValue& json : *messages.array()) {
    auto message = MessageFromJson(json);
    if (!message.ok())
      return InvalidArgument("Message ", out.size(), ": ", message.status().message());
    out.push_back(std::move(message).value());
  }
  return out;
}

}  // namespace rose
