#include "api/messages_request.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/field_reader.h"

namespace rose {
namespace {

using Object = JsonValue::Object;

JsonValue Text(std::string text) {
  return JsonValue(std::move(text));
}

// A message that is under way: blocks of one kind in a row belong together.
class Conversation {
 public:
  explicit Conversation(std::optional<ApiError>& error) : error_(error) {}

  void AddSystem(const JsonValue& system) {
    const std::string text = TextOf(system, "system");
    if (!text.empty()) Add("system", {{"content", Text(text)}});
  }

  void AddMessage(const JsonValue& json, const std::string& path) {
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

  JsonValue::Array Take() { return std::move(messages_); }

 private:
  void Add(std::string role, Object fields) {
    fields.insert(fields.begin(), {"role", Text(std::move(role))});
    messages_.emplace_back(std::move(fields));
  }

  // The blocks of a content that is no string; reports anything else.
  const JsonValue::Array& Blocks(const JsonValue& content, const std::string& path) {
    static const JsonValue::Array kNone;
    if (content.array()) return *content.array();
    if (!error_)
      error_ = ApiError{.message = path + " must be a string or a list of blocks.", .param = path};
    return kNone;
  }

  void Refuse(FieldReader& block, const std::string& type) {
    block.Fail("type", StrCat("is \"", type, "\", which this model can not read; it reads text"));
  }

  // A string, or text blocks.
  std::string TextOf(const JsonValue& content, const std::string& path) {
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

  std::string ReadText(FieldReader& block) {
    if (!block.Get("text")) block.Fail("text", "is missing");
    return block.String("text");
  }

  // Results of tools are messages of their own, in the order of the blocks.
  void AddUser(const JsonValue& content, const std::string& path) {
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

  void AddResult(FieldReader& block) {
    const std::string id = block.String("tool_use_id");
    if (!calls_.contains(id))
      block.Fail("tool_use_id", StrCat("\"", id, "\" is the id of no tool_use before it"));
    const JsonValue* content = block.Get("content");
    std::string text = content ? TextOf(*content, block.PathOf("content")) : "";
    if (block.Bool("is_error", false)) text.insert(0, "Error: ");
    Add("tool", {{"tool_call_id", Text(id)}, {"content", Text(std::move(text))}});
  }

  void AddAssistant(const JsonValue& content, const std::string& path) {
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

  JsonValue ReadCall(FieldReader& block) {
    const std::string id = block.String("id"), name = block.String("name");
    if (id.empty()) block.Fail("id", "is missing");
    if (name.empty()) block.Fail("name", "is missing");
    const JsonValue* input = block.Get("input");
    if (input && !input->object()) block.Fail("input", "must be an object");
    calls_.insert(id);
    Object function{{"name", Text(name)}, {"arguments", Text(input ? WriteJson(*input) : "{}")}};
    return JsonValue(Object{{"id", Text(id)},
                            {"type", Text("function")},
                            {"function", JsonValue(std::move(function))}});
  }

  std::optional<ApiError>& error_;
  JsonValue::Array messages_;
  std::set<std::string> calls_;  // ids of tool_use blocks so far
};

JsonValue ReadTool(const JsonValue& json, const std::string& path, std::set<std::string>& names,
                   std::optional<ApiError>& error) {
  FieldReader tool(json, path, error);
  if (error) return JsonValue();
  const std::string type = tool.String("type", "custom"), name = tool.String("name");
  if (type != "custom") {
    tool.Fail("type", StrCat("is \"", type, "\", a tool that this server does not have; declare ",
                             "one of your own, with name, description and input_schema"));
  }
  if (name.empty()) tool.Fail("name", "is missing");
  names.insert(name);
  const JsonValue* schema = tool.Get("input_schema");
  if (!schema || !schema->object()) tool.Fail("input_schema", "must be an object, a JSON Schema");
  Object function{{"name", Text(name)}};
  if (tool.Get("description")) function.emplace_back("description", tool.String("description"));
  if (schema) function.emplace_back("parameters", *schema);
  if (tool.Bool("strict", false)) function.emplace_back("strict", JsonValue(true));
  return JsonValue(
      Object{{"type", Text("function")}, {"function", JsonValue(std::move(function))}});
}

class Translator {
 public:
  Translator(const JsonValue& body, std::optional<ApiError>& error)
      : error_(error), fields_(body, "", error) {}

  TranslatedMessages Translate() {
    TranslatedMessages out;
    if (error_) return out;
    Refuse();
    for (const char* name : {"model", "temperature", "top_p", "top_k", "seed", "stream"})
      if (const JsonValue* value = fields_.Get(name)) chat_.emplace_back(name, *value);
    if (const JsonValue* stops = fields_.Get("stop_sequences")) {
      if (!stops->array()) fields_.Fail("stop_sequences", "must be a list of strings");
      chat_.emplace_back("stop", *stops);
    }
    ReadConversation();
    ReadTools();
    ReadThinking();
    out.max_tokens = fields_.Integer("max_tokens", 0, 1, INT64_MAX);
    out.chat = JsonValue(std::move(chat_));
    return out;
  }

 private:
  // What would change the answer and is not there.
  void Refuse() {
    for (const char* name : {"mcp_servers", "container"}) {
      const JsonValue* value = fields_.Get(name);
      if (value && !(value->array() && value->array()->empty()))
        fields_.Fail(name, "is not supported by this server");
    }
  }

  void ReadConversation() {
    Conversation conversation(error_);
    if (const JsonValue* system = fields_.Get("system")) conversation.AddSystem(*system);
    const auto* messages = fields_.Array("messages");
    if (!messages || messages->empty())
      return fields_.Fail("messages", "must be a list with at least one message");
    for (size_t i = 0; i < messages->size() && !error_; ++i)
      conversation.AddMessage((*messages)[i], StrCat("messages[", i, "]"));
    chat_.emplace_back("messages", conversation.Take());
  }

  void ReadTools() {
    const auto* tools = fields_.Array("tools");
    if (!tools || tools->empty()) return;
    std::set<std::string> names;
    JsonValue::Array out;
    for (size_t i = 0; i < tools->size() && !error_; ++i)
      out.push_back(ReadTool((*tools)[i], StrCat("tools[", i, "]"), names, error_));
    chat_.emplace_back("tools", std::move(out));
    if (const JsonValue* json = fields_.Get("tool_choice")) ReadChoice(*json, names);
  }

  void ReadChoice(const JsonValue& json, const std::set<std::string>& names) {
    FieldReader choice(json, "tool_choice", error_);
    if (error_) return;
    const std::string type = choice.String("type");
    if (choice.Bool("disable_parallel_tool_use", false))
      chat_.emplace_back("parallel_tool_calls", JsonValue(false));
    if (type == "auto" || type == "none") {
      chat_.emplace_back("tool_choice", Text(type));
    } else if (type == "any") {
      chat_.emplace_back("tool_choice", Text("required"));
    } else if (type == "tool") {
      const std::string name = choice.String("name");
      if (!names.contains(name))
        choice.Fail("name", StrCat("\"", name, "\" is not among the tools"));
      Object function{{"name", Text(name)}};
      chat_.emplace_back("tool_choice",
                         JsonValue(Object{{"type", Text("function")},
                                          {"function", JsonValue(std::move(function))}}));
    } else {
      choice.Fail("type", "must be \"auto\", \"any\", \"tool\" or \"none\"");
    }
  }

  void ReadThinking() {
    std::string effort;
    bool shown = false;
    if (const JsonValue* json = fields_.Get("thinking")) {
      FieldReader thinking(*json, "thinking", error_);
      if (error_) return;
      const std::string type = thinking.String("type");
      if (type == "enabled") {
        const int64_t budget = thinking.Integer("budget_tokens", 2048, 0, INT64_MAX);
        effort = budget < 2048 ? "low" : budget < 16384 ? "medium" : "high";
      } else if (type == "disabled") {
        effort = "low";
      } else if (type != "adaptive") {
        thinking.Fail("type", "must be \"enabled\", \"disabled\" or \"adaptive\"");
      }
      shown = type != "disabled" && thinking.String("display") != "omitted";
    }
    if (const JsonValue* json = fields_.Get("output_config")) ReadOutput(*json, effort);
    if (!effort.empty()) chat_.emplace_back("reasoning_effort", Text(effort));
    chat_.emplace_back("include_reasoning", JsonValue(shown));
  }

  void ReadOutput(const JsonValue& json, std::string& effort) {
    FieldReader config(json, "output_config", error_);
    if (error_) return;
    const std::string word = config.String("effort");
    if (word == "max" || word == "xhigh") {
      effort = "high";
    } else if (word == "low" || word == "medium" || word == "high") {
      effort = word;
    } else if (!word.empty()) {
      config.Fail("effort", "must be \"low\", \"medium\", \"high\", \"xhigh\" or \"max\"");
    }
    const JsonValue* given = config.Get("format");
    if (!given) return;
    FieldReader format(*given, config.PathOf("format"), error_);
    if (error_) return;
    const JsonValue* schema = format.Get("schema");
    if (format.String("type") != "json_schema") format.Fail("type", "must be \"json_schema\"");
    if (!schema || !schema->object()) return format.Fail("schema", "must be an object");
    Object named{{"name", Text("response")}, {"strict", JsonValue(true)}, {"schema", *schema}};
    chat_.emplace_back("response_format",
                       JsonValue(Object{{"type", Text("json_schema")},
                                        {"json_schema", JsonValue(std::move(named))}}));
  }

  std::optional<ApiError>& error_;
  FieldReader fields_;
  Object chat_;
};

}  // namespace

TranslatedMessages TranslateMessages(const JsonValue& body, std::optional<ApiError>& error) {
  return Translator(body, error).Translate();
}

}  // namespace rose
