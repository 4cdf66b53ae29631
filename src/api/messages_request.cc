#include "api/messages_request.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/field_reader.h"
#include "api/messages_conversation.h"

namespace rose {
namespace {

using Object = JsonValue::Object;

JsonValue Text(std::string text) {
  return JsonValue(std::move(text));
}

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
    const bool continues = ReadConversation();
    ReadTools();
    ReadThinking();
    if (continues) ReadContinuation();
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
    // A client that is told so by this code sends whole conversations from then on; one that is not
    // told sends only what is new, without tools.
    if (fields_.Get("thread")) {
      fields_.Fail({.message = "thread is not supported by this server; leave it out, and send the "
                               "whole conversation in messages.",
                    .param = "thread",
                    .code = "thread_unsupported_request"});
    }
  }

  // True if the answer is to go on in the last message.
  bool ReadConversation() {
    MessagesConversation conversation(error_);
    if (const JsonValue* system = fields_.Get("system")) conversation.AddSystem(*system);
    const auto* messages = fields_.Array("messages");
    if (!messages || messages->empty())
      fields_.Fail("messages", "must be a list with at least one message");
    for (size_t i = 0; messages && i < messages->size() && !error_; ++i)
      conversation.AddMessage((*messages)[i], StrCat("messages[", i, "]"));
    chat_.emplace_back("messages", conversation.Take());
    return conversation.EndsWithText();
  }

  void ReadContinuation() {
    if (forced_ || formed_) {
      return fields_.Fail("messages",
                          "end with a text of the assistant, which cannot be continued as a forced "
                          "call or in a format; end with a message of the user");
    }
    chat_.emplace_back("continue_final_message", JsonValue(true));
  }

  void ReadTools() {
    const auto* tools = fields_.Array("tools");
    if (!tools || tools->empty()) {
      if (const JsonValue* json = fields_.Get("tool_choice")) ReadChoiceWithoutTools(*json);
      return;
    }
    std::set<std::string> names;
    JsonValue::Array out;
    for (size_t i = 0; i < tools->size() && !error_; ++i)
      out.push_back(ReadTool((*tools)[i], StrCat("tools[", i, "]"), names, error_));
    chat_.emplace_back("tools", std::move(out));
    if (const JsonValue* json = fields_.Get("tool_choice")) ReadChoice(*json, names);
  }

  // There is nothing to choose from.
  void ReadChoiceWithoutTools(const JsonValue& json) {
    FieldReader choice(json, "tool_choice", error_);
    if (error_) return;
    const std::string type = choice.String("type");
    if (type != "auto" && type != "none")
      fields_.Fail("tool_choice", "is only allowed together with tools");
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
      forced_ = true;
      chat_.emplace_back("tool_choice", Text("required"));
    } else if (type == "tool") {
      forced_ = true;
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
        // For models that need not think at all.
        chat_.emplace_back("chat_template_kwargs",
                           JsonValue(Object{{"enable_thinking", JsonValue(false)}}));
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
    formed_ = true;
    Object named{{"name", Text("response")}, {"strict", JsonValue(true)}, {"schema", *schema}};
    chat_.emplace_back("response_format",
                       JsonValue(Object{{"type", Text("json_schema")},
                                        {"json_schema", JsonValue(std::move(named))}}));
  }

  std::optional<ApiError>& error_;
  FieldReader fields_;
  Object chat_;
  bool forced_ = false;  // a call is wanted, whatever the model thinks
  bool formed_ = false;  // the answer has a format
};

}  // namespace

TranslatedMessages TranslateMessages(const JsonValue& body, std::optional<ApiError>& error) {
  return Translator(body, error).Translate();
}

}  // namespace rose
