// The messages of Anthropic's Messages API as those of chat completions.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "api/error.h"
#include "api/field_reader.h"
#include "base/json.h"

namespace rose {

class MessagesConversation {
 public:
  // `error` keeps the first failure; messages after it add nothing.
  explicit MessagesConversation(std::optional<ApiError>& error) : error_(error) {}

  // `system`: a string, or text blocks.
  void AddSystem(const JsonValue& system);
  // One message, at `path` of the body. Results of tools become messages of their own.
  void AddMessage(const JsonValue& json, const std::string& path);

  // The last message is a text of the assistant, without calls.
  bool EndsWithText() const { return ends_with_text_; }
  // What was added, in the form of chat completions.
  JsonValue::Array Take() { return std::move(messages_); }

 private:
  void Add(std::string role, JsonValue::Object fields);
  const JsonValue::Array& Blocks(const JsonValue& content, const std::string& path);
  void Refuse(FieldReader& block, const std::string& type);
  std::string TextOf(const JsonValue& content, const std::string& path);
  std::string ReadText(FieldReader& block);
  void AddUser(const JsonValue& content, const std::string& path);
  void AddResult(FieldReader& block);
  void AddAssistant(const JsonValue& content, const std::string& path);
  JsonValue ReadCall(FieldReader& block);

  std::optional<ApiError>& error_;
  JsonValue::Array messages_;
  bool ends_with_text_ = false;
  std::set<std::string> calls_;  // ids of tool_use blocks so far
};

}  // namespace rose
