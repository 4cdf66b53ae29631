#include "api/chat_messages.h"

#include <map>

namespace rose {
namespace {

// Function names by the ids of their calls.
using CallNames = std::map<std::string, std::string>;

// One text part, or "" and a failure.
std::string ReadPart(const JsonValue& json, const std::string& path,
                     std::optional<ApiError>& error) {
  FieldReader part(json, path, error);
  if (!part.ok()) return "";
  const std::string type = part.String("type");
  if (type == "refusal") return part.String("refusal");
  if (type == "text" || type == "input_text" || type == "output_text") {
    if (!part.Get("text")) part.Fail("text", "is missing");
    return part.String("text");
  }
  part.Fail("type", StrCat(type.empty() ? "is missing" : "is \"" + type + "\"",
                           "; this model reads text alone"));
  return "";
}

std::string ReadReasoning(FieldReader& message) {
  for (const char* name : {"reasoning", "reasoning_content", "thinking"}) {
    std::string text = message.String(name);
    if (!text.empty()) return text;
  }
  return "";
}

// {"name", "arguments"}.
void ReadFunction(const JsonValue* json, const std::string& path, ToolCall& call,
                  std::optional<ApiError>& error) {
  static const JsonValue kMissing;
  FieldReader function(json ? *json : kMissing, path, error);
  if (!function.ok()) return;
  call.name = function.String("name");
  if (call.name.empty()) function.Fail("name", "is missing");
  call.arguments = function.String("arguments");
}

void ReadCalls(FieldReader& message, ChatMessage& out, CallNames& names,
               std::optional<ApiError>& error) {
  if (const JsonValue* legacy = message.Get("function_call"))
    ReadFunction(legacy, message.PathOf("function_call"), out.tool_calls.emplace_back(), error);
  const auto* calls = message.Array("tool_calls");
  for (size_t i = 0; calls && i < calls->size() && !error; ++i) {
    const std::string path = StrCat(message.PathOf("tool_calls"), "[", i, "]");
    FieldReader json((*calls)[i], path, error);
    if (error) return;
    if (const std::string type = json.String("type", "function"); type != "function")
      json.Fail("type", "must be \"function\"");
    ToolCall& call = out.tool_calls.emplace_back();
    call.id = json.String("id");
    ReadFunction(json.Get("function"), json.PathOf("function"), call, error);
    names[call.id] = call.name;
  }
}

void ReadToolAnswer(FieldReader& message, const CallNames& names, ChatMessage& out) {
  const std::string id = message.String("tool_call_id");
  if (!message.Get("tool_call_id")) {
    message.Fail("tool_call_id", "is missing");
    return;
  }
  const auto name = names.find(id);
  if (name == names.end()) {
    message.Fail("tool_call_id", StrCat("\"", id, "\" matches no tool call before it"));
    return;
  }
  out.tool_name = name->second;
}

ChatMessage ReadMessage(const JsonValue& json, const std::string& path, CallNames& names,
                        std::optional<ApiError>& error) {
  ChatMessage out;
  FieldReader message(json, path, error);
  if (error) return out;
  const std::string role = message.String("role");
  out.content = ReadContent(message, "content", error);
  out.has_content = message.Get("content") != nullptr;
  if (role == "system") {
    out.role = Role::kSystem;
  } else if (role == "developer") {
    out.role = Role::kDeveloper;
  } else if (role == "user") {
    out.role = Role::kUser;
  } else if (role == "assistant") {
    out.role = Role::kAssistant;
    out.reasoning = ReadReasoning(message);
    if (const std::string refusal = message.String("refusal");
        out.content.empty() && !refusal.empty()) {  // what it said instead
      out.content = refusal;
      out.has_content = true;
    }
    ReadCalls(message, out, names, error);
  } else if (role == "tool") {
    out.role = Role::kTool;
    ReadToolAnswer(message, names, out);
  } else if (role == "function") {  // the form before tools: the name stands in the message
    out.role = Role::kTool;
    out.tool_name = message.String("name");
    if (out.tool_name.empty()) message.Fail("name", "is missing");
  } else {
    message.Fail("role", "must be system, developer, user, assistant or tool");
  }
  return out;
}

}  // namespace

std::string ReadContent(FieldReader& fields, std::string_view name,
                        std::optional<ApiError>& error) {
  const JsonValue* content = fields.Get(name);
  if (!content) return "";
  if (content->string()) return *content->string();
  if (!content->array()) {
    fields.Fail(name, "must be a string or a list of parts");
    return "";
  }
  std::string text;
  for (size_t i = 0; i < content->array()->size() && !error; ++i)
    text += ReadPart((*content->array())[i], StrCat(fields.PathOf(name), "[", i, "]"), error);
  return text;
}

std::vector<ChatMessage> ReadMessages(const JsonValue& body, std::optional<ApiError>& error) {
  std::vector<ChatMessage> out;
  FieldReader request(body, "", error);
  const auto* messages = request.Array("messages");
  if (!messages || messages->empty()) {
    request.Fail("messages", "must be a list with at least one message");
    return out;
  }
  CallNames names;
  for (size_t i = 0; i < messages->size() && !error; ++i)
    out.push_back(ReadMessage((*messages)[i], StrCat("messages[", i, "]"), names, error));
  return out;
}

}  // namespace rose
