#include "api/responses_input.h"

#include <map>
#include <utility>

#include "api/chat_messages.h"
#include "api/chat_tools.h"
#include "api/json_writer.h"

namespace rose {
namespace {

std::optional<Role> RoleOf(std::string_view name) {
  if (name == "user") return Role::kUser;
  if (name == "assistant") return Role::kAssistant;
  if (name == "system") return Role::kSystem;
  if (name == "developer") return Role::kDeveloper;
  return std::nullopt;
}

// What the assistant says before it calls within a turn is on the way to the call.
void MarkPreambles(std::vector<ChatMessage>& messages) {
  bool call_follows = false;
  for (auto message = messages.rbegin(); message != messages.rend(); ++message) {
    if (message->role != Role::kAssistant) {
      call_follows = false;
    } else if (!message->tool_calls.empty()) {
      call_follows = true;
    } else if (message->has_content && call_follows) {
      message->is_preamble = true;
    }
  }
}

// A message as an item whose content is a list of parts.
std::string MessageJson(const JsonValue& item, const std::string& id, const ChatMessage& message) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("id").String(id).Key("type").String("message");
  json.Key("role").Raw(WriteJson(*item.Find("role"))).Key("status").String("completed");
  json.Key("content");
  const JsonValue* content = item.Find("content");
  if (content && content->array()) {
    json.Raw(WriteJson(*content));
  } else {
    const bool assistant = message.role == Role::kAssistant;
    json.BeginArray().BeginObject().Key("type").String(assistant ? "output_text" : "input_text");
    json.Key("text").String(message.content);
    if (assistant) json.Key("annotations").BeginArray().EndArray();
    json.EndObject().EndArray();
  }
  json.EndObject();
  return out;
}

// Any other item: as it came, with an id and a status.
std::string ItemJson(const JsonValue& item, const std::string& id) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("id").String(id);
  bool has_status = false;
  for (const auto& [key, value] : *item.object()) {
    if (key == "id" || (key == "status" && value.is_null())) continue;
    has_status = has_status || key == "status";
    json.Key(key).Raw(WriteJson(value));
  }
  if (!has_status) json.Key("status").String("completed");
  json.EndObject();
  return out;
}

// Where in a turn of the assistant a message begins or ends: thoughts, text, calls.
enum class Stage { kThoughts, kText, kCalls };

Stage FirstStage(const ChatMessage& message) {
  if (!message.reasoning.empty()) return Stage::kThoughts;
  return message.has_content ? Stage::kText : Stage::kCalls;
}

Stage LastStage(const ChatMessage& message) {
  if (!message.tool_calls.empty()) return Stage::kCalls;
  return message.has_content ? Stage::kText : Stage::kThoughts;
}

bool MayJoin(const ChatMessage& turn, const ChatMessage& next) {
  if (turn.role != Role::kAssistant || next.role != Role::kAssistant) return false;
  // An empty text is one of its own, which is lost beside others.
  for (const ChatMessage* message : {&turn, &next})
    if (message->has_content && message->content.empty()) return false;
  const Stage last = LastStage(turn), first = FirstStage(next);
  return last < first || (last == first && last == Stage::kCalls);
}

class InputReader {
 public:
  InputReader(const ApiContext& context, ResponsesInput& out, bool keep_items,
              std::optional<ApiError>& error)
      : context_(context), out_(out), keep_items_(keep_items), error_(error) {
    for (const ChatMessage& message : out_.conversation) NoteCalls(message);
  }

  void ReadText(const std::string& text) {
    out_.conversation.push_back({.role = Role::kUser, .content = text});
    if (!keep_items_) return;
    const JsonValue item(JsonValue::Object{{"role", JsonValue(std::string("user"))}});
    const std::string id = context_.NewId("msg_");
    out_.items.push_back({id, MessageJson(item, id, out_.conversation.back())});
  }

  void ReadItem(const JsonValue& json, const std::string& path) {
    FieldReader item(json, path, error_);
    if (error_) return;
    const std::string type = item.String("type");
    if (type == "message" || (type.empty() && item.Get("role"))) return ReadMessage(item, json);
    if (type == "reasoning") return ReadReasoning(item, json);
    if (type == "function_call") return ReadCall(item, json);
    if (type == "function_call_output") return ReadOutput(item, json);
    if (type == "item_reference" || (type.empty() && item.Get("id"))) return ReadReference(item);
    item.Fail("type", StrCat(type.empty() ? "is missing" : "is \"" + type + "\"",
                             "; this model reads items of type message, reasoning, function_call, "
                             "function_call_output and item_reference"));
  }

 private:
  void ReadMessage(FieldReader& item, const JsonValue& json) {
    const auto role = RoleOf(item.String("role"));
    if (!role) return item.Fail("role", "must be user, assistant, system or developer");
    ChatMessage message{.role = *role, .content = ReadContent(item, "content", error_)};
    message.has_content = item.Get("content") != nullptr;
    message.is_preamble = item.String("phase") == "commentary";
    if (error_) return;
    Keep(item, "msg_", [&](const std::string& id) { return MessageJson(json, id, message); });
    Add(std::move(message));
  }

  void ReadReasoning(FieldReader& item, const JsonValue& json) {
    const auto* parts = item.Array("content");
    std::string text;
    for (size_t i = 0; parts && i < parts->size() && !error_; ++i) {
      FieldReader part((*parts)[i], StrCat(item.PathOf("content"), "[", i, "]"), error_);
      if (error_) return;
      const std::string type = part.String("type", "reasoning_text");
      if (type != "reasoning_text" && type != "text")
        return part.Fail("type", "must be \"reasoning_text\"");
      if (!text.empty()) text += '\n';
      text += part.String("text");
    }
    if (error_) return;
    Keep(item, "rs_", [&](const std::string& id) { return ItemJson(json, id); });
    if (text.empty()) return;
    Add({.role = Role::kAssistant, .has_content = false, .reasoning = std::move(text)});
  }

  void ReadCall(FieldReader& item, const JsonValue& json) {
    const ToolName name{item.String("namespace"), item.String("name")};
    ToolCall call{item.String("call_id"), FlatName(name), item.String("arguments")};
    if (name.name.empty()) return item.Fail("name", "is missing");
    if (call.id.empty()) return item.Fail("call_id", "is missing");
    if (error_) return;
    Keep(item, "fc_", [&](const std::string& id) { return ItemJson(json, id); });
    ChatMessage message{.role = Role::kAssistant, .has_content = false};
    message.tool_calls.push_back(std::move(call));
    Add(std::move(message));
  }

  void ReadOutput(FieldReader& item, const JsonValue& json) {
    const std::string call_id = item.String("call_id");
    if (call_id.empty()) return item.Fail("call_id", "is missing");
    const auto name = names_.find(call_id);
    if (name == names_.end())
      return item.Fail("call_id", StrCat("\"", call_id,
                                         "\" matches no function_call before it, in the input or "
                                         "in the response that it continues"));
    ChatMessage message{.role = Role::kTool, .content = ReadContent(item, "output", error_)};
    message.tool_name = name->second;
    if (error_) return;
    Keep(item, "fco_", [&](const std::string& id) { return ItemJson(json, id); });
    Add(std::move(message));
  }

  void ReadReference(FieldReader& item) {
    const std::string id = item.String("id");
    if (id.empty()) return item.Fail("id", "is missing");
    auto found = context_.responses ? context_.responses->FindItem(id) : std::nullopt;
    if (!found)
      return item.Fail(
          "id", StrCat("\"", id, "\" names no item of a stored response; send the item itself"));
    if (keep_items_) out_.items.push_back({id, std::move(found->json)});
    const ChatMessage& message = found->message;
    if (!message.has_content && message.reasoning.empty() && message.tool_calls.empty()) return;
    Add(std::move(found->message));
  }

  template <typename Json>
  void Keep(FieldReader& item, std::string_view prefix, const Json& json) {
    if (!keep_items_) return;
    std::string id = item.String("id");
    if (id.empty()) id = context_.NewId(prefix);
    std::string text = json(id);
    out_.items.push_back({std::move(id), std::move(text)});
  }

  void Add(ChatMessage message) {
    NoteCalls(message);
    out_.conversation.push_back(std::move(message));
  }
  void NoteCalls(const ChatMessage& message) {
    for (const ToolCall& call : message.tool_calls) names_[call.id] = call.name;
  }

  const ApiContext& context_;
  ResponsesInput& out_;
  const bool keep_items_;
  std::optional<ApiError>& error_;
  std::map<std::string, std::string> names_;  // functions by the ids of their calls
};

}  // namespace

std::vector<ChatMessage> JoinTurns(std::span<const ChatMessage> messages) {
  std::vector<ChatMessage> out;
  for (const ChatMessage& message : messages) {
    if (out.empty() || !MayJoin(out.back(), message)) {
      out.push_back(message);
      continue;
    }
    ChatMessage& turn = out.back();
    if (message.has_content) {
      turn.has_content = true;
      turn.content = message.content;
      turn.is_preamble = message.is_preamble;
    }
    turn.tool_calls.insert(turn.tool_calls.end(), message.tool_calls.begin(),
                           message.tool_calls.end());
  }
  return out;
}

ResponsesInput ReadResponsesInput(const JsonValue& body, const ApiContext& context,
                                  std::vector<ChatMessage> before, bool keep_items,
                                  std::optional<ApiError>& error) {
  ResponsesInput out{.conversation = std::move(before)};
  FieldReader request(body, "", error);
  const JsonValue* input = request.Get("input");
  InputReader reader(context, out, keep_items, error);
  if (input && input->string()) {
    reader.ReadText(*input->string());
  } else if (input && input->array()) {
    for (size_t i = 0; i < input->array()->size() && !error; ++i)
      reader.ReadItem((*input->array())[i], StrCat("input[", i, "]"));
  } else if (input) {
    request.Fail("input", "must be a text or a list of items");
  }
  if (out.conversation.empty())
    request.Fail("input", "must be a text or a list with at least one item");
  MarkPreambles(out.conversation);
  return out;
}

}  // namespace rose
