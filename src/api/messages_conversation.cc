#include "api/messages_conversation.h"

#include <utility>

namespace rose {
namespace {

using Object = JsonValue::Object;

JsonValue Text(std::string text) {
  return JsonValue(std::move(text));
}

}  // namespace

void MessagesConversation::AddSystem(const JsonValue& system) {
  const std::string text = TextOf(system, "system");
  if (!text.empty()) Add("system", {{"content", Text(text)}});
}

void MessagesConversation::AddMessage(const JsonValue& json, const std::string& path) {
  FieldReader message(json, path, error_);
  if (error_) return;
  const std::string role = message.String("role");
  const JsonValue* content = message.Get("content");
  if (role != "user" && role != "assistant" && role != "system")
    return message.Fail("role", "must be \"user\" or \"assistant\"");
  if (!content) return message.Fail("content", "is missing");
  const std::string at = message.PathOf("content");
  if (role == "system") return Add("system", {{"content", Text(TextOf(*content, at))}});
  role == "user" ? AddUser(*content, at) : AddAssistant(*content, at);
}

void MessagesConversation::Add(std::string role, Object fields) {
  ends_with_text_ = role == "assistant" && fields.back().first == "content" &&
                    !fields.back().second.string()->empty();
  fields.insert(fields.begin(), {"role", Text(std::move(role))});
  messages_.emplace_back(std::move(fields));
}

// The blocks of a content that is no string; reports anything else.
const JsonValue::Array& MessagesConversation::Blocks(const JsonValue& content,
                                                     const std::string& path) {
  static const JsonValue::Array kNone;
  if (content.array()) return *content.array();
  if (!error_)
    error_ = ApiError{.message = path + " must be a string or a list of blocks.", .param = path};
  return kNone;
}

void MessagesConversation::Refuse(FieldReader& block, const std::string& type) {
  block.Fail("type", StrCat("is \"", type, "\", which this model can not read; it reads text"));
}

// A string, or text blocks.
std::string MessagesConversation::TextOf(const JsonValue& content, const std::string& path) {
  if (content.string()) return *content.string();
  std::string text;
  const auto& blocks = Blocks(content, path);
  for (size_t i = 0; i < blocks.size() && !error_; ++i) {
    FieldReader block(blocks[i], StrCat(path, "[", i, "]"), error_);
    if (error_) break;
    const std::string type = block.String("type");
    if (type != "text") Refuse(block, type);
    text += ReadText(block);
  }
  return text;
}

std::string MessagesConversation::ReadText(FieldReader& block) {
  if (!block.Get("text")) block.Fail("text", "is missing");
  return block.String("text");
}

// Results of tools are messages of their own, in the order of the blocks.
void MessagesConversation::AddUser(const JsonValue& content, const std::string& path) {
  if (content.string()) return Add("user", {{"content", content}});
  std::string text;
  bool has_text = false;
  const auto flush = [&] {
    if (std::exchange(has_text, false)) Add("user", {{"content", Text(std::exchange(text, ""))}});
  };
  const auto& blocks = Blocks(content, path);
  for (size_t i = 0; i < blocks.size() && !error_; ++i) {
    FieldReader block(blocks[i], StrCat(path, "[", i, "]"), error_);
    if (error_) return;
    const std::string type = block.String("type");
    if (type == "text") {
      has_text = true;
      text += ReadText(block);
    } else if (type == "tool_result") {
      flush();
      AddResult(block);
    } else {
      Refuse(block, type);
    }
  }
  flush();
}

void MessagesConversation::AddResult(FieldReader& block) {
  const std::string id = block.String("tool_use_id");
  if (!calls_.contains(id))
    block.Fail("tool_use_id", StrCat("\"", id, "\" is the id of no tool_use before it"));
  const JsonValue* content = block.Get("content");
  std::string text = content ? TextOf(*content, block.PathOf("content")) : "";
  if (block.Bool("is_error", false)) text.insert(0, "Error: ");
  Add("tool", {{"tool_call_id", Text(id)}, {"content", Text(std::move(text))}});
}

void MessagesConversation::AddAssistant(const JsonValue& content, const std::string& path) {
  if (content.string()) return Add("assistant", {{"content", content}});
  std::string text, thought;
  JsonValue::Array calls;
  bool has_text = false;
  const auto& blocks = Blocks(content, path);
  for (size_t i = 0; i < blocks.size() && !error_; ++i) {
    FieldReader block(blocks[i], StrCat(path, "[", i, "]"), error_);
    if (error_) return;
    const std::string type = block.String("type");
    if (type == "text") {
      has_text = true;
      text += ReadText(block);
    } else if (type == "thinking") {
      thought += (thought.empty() ? "" : "\n") + block.String("thinking");
    } else if (type == "tool_use") {
      calls.push_back(ReadCall(block));
    } else if (type != "redacted_thinking") {
      Refuse(block, type);
    }
  }
  Object fields;
  if (!thought.empty()) fields.emplace_back("reasoning", Text(std::move(thought)));
  if (has_text || calls.empty()) fields.emplace_back("content", Text(std::move(text)));
  if (!calls.empty()) fields.emplace_back("tool_calls", std::move(calls));
  Add("assistant", std::move(fields));
}

JsonValue MessagesConversation::ReadCall(FieldReader& block) {
  const std::string id = block.String("id"), name = block.String("name");
  if (id.empty()) block.Fail("id", "is missing");
  if (name.empty()) block.Fail("name", "is missing");
  const JsonValue* input = block.Get("input");
  if (input && !input->object()) block.Fail("input", "must be an object");
  calls_.insert(id);
  Object function{{"name", Text(name)}, {"arguments", Text(input ? WriteJson(*input) : "{}")}};
  return JsonValue(Object{
      {"id", Text(id)}, {"type", Text("function")}, {"function", JsonValue(std::move(function))}});
}

}  // namespace rose
