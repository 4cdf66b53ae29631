#include "chat/harmony_json.h"

#include <utility>

#include "chat/harmony_text.h"

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

Result<Role> GetRole(const JsonValue& json, std::string_view key) {
  std::optional<std::string> text;
  ROSE_RETURN_IF_ERROR(GetString(json, key, text));
  for (const Role role :
       {Role::kSystem, Role::kDeveloper, Role::kUser, Role::kAssistant, Role::kTool})
    if (text == RoleName(role)) return role;
  return InvalidArgument("\"", key, "\" must be system, developer, user, assistant or tool.");
}

Result<HarmonyMessage> MessageFromJson(const JsonValue& json) {
  HarmonyMessage message;
  ROSE_ASSIGN_OR_RETURN(message.role, GetRole(json, "role"));
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

Status GetPurpose(const JsonValue& json, HarmonyRenderOptions& options) {
  using Purpose = HarmonyRenderOptions::Purpose;
  std::optional<std::string> text;
  ROSE_RETURN_IF_ERROR(GetString(json, "for", text));
  if (!text || text == "completion") {
    options.purpose = Purpose::kCompletion;
  } else if (text == "conversation") {
    options.purpose = Purpose::kConversation;
  } else if (text == "training") {
    options.purpose = Purpose::kTraining;
  } else {
    return InvalidArgument("\"for\" must be conversation, completion or training, not ", *text,
                           ".");
  }
  return Status();
}

void AppendMember(std::string& out, std::string_view key, const std::string& value) {
  out += '"';
  out += key;
  out += "\": ";
  if (value.empty()) {
    out += "null";
  } else {
    AppendJsonString(out, value);
  }
  out += ", ";
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

Result<HarmonyRendering> HarmonyRenderingFromJson(const JsonValue& json) {
  HarmonyRendering out;
  out.options.drop = HarmonyRenderOptions::Drop::kBeforeFirstFinal;
  if (json.object()) {
    ROSE_RETURN_IF_ERROR(GetPurpose(json, out.options));
    if (Get(json, "next_role")) {
      ROSE_ASSIGN_OR_RETURN(const Role role, GetRole(json, "next_role"));
      out.options.next_role = RoleName(role);
    }
    if (const JsonValue* drop = Get(json, "auto_drop_analysis")) {
      if (!drop->boolean()) return InvalidArgument("\"auto_drop_analysis\" must be true or false.");
      if (!*drop->boolean()) out.options.drop = HarmonyRenderOptions::Drop::kNothing;
    }
    if (!Get(json, "messages")) return InvalidArgument("\"messages\" is missing.");
  }
  ROSE_ASSIGN_OR_RETURN(out.messages,
                        HarmonyMessagesFromJson(json.object() ? *Get(json, "messages") : json));
  return out;
}

std::string HarmonyMessagesToJson(std::span<const ChatEvent> events) {
  std::string out = "{\"messages\": [", text;
  bool first = true;
  for (const ChatEvent& event : events) {
    switch (event.kind) {
      case ChatEvent::Kind::kBegin:
        out += first ? "{" : ", {";
        first = false;
        AppendMember(out, "role", event.author);
        AppendMember(out, "channel", event.channel);
        AppendMember(out, "recipient", event.recipient);
        AppendMember(out, "content_type", event.content_type);
        break;
      case ChatEvent::Kind::kText:
        text += event.text;
        break;
      case ChatEvent::Kind::kEnd:
        out += "\"text\": ";
        AppendJsonString(out, std::exchange(text, {}));
        out += '}';
        break;
      case ChatEvent::Kind::kDropped:
        break;
    }
  }
  return out + "]}";
}

}  // namespace rose
