#include "chat/qwen3.h"

#include <algorithm>
#include <mutex>

#include "chat/answer_constraint.h"
#include "chat/python_json.h"
#include "chat/qwen3_parser.h"

namespace rose {
namespace {

// Words of the template.
constexpr std::string_view kToolsHead =
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>";
constexpr std::string_view kToolsTail =
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments "
    "within ";

std::string_view StripLeft(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of('\n'), text.size()));
}
std::string_view StripRight(std::string_view text) {
  return text.substr(0, text.find_last_not_of('\n') + 1);
}

bool IsSystem(const ChatMessage& message) {
  return message.role == Role::kSystem || message.role == Role::kDeveloper;
}

// Text between two markers is encoded in one piece, whatever it is joined from, as the reference
// encodes a rendered template; but a marker comes from the template alone, never from a text.
class Writer {
 public:
  explicit Writer(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  Writer& Text(std::string_view text) {
    text_ += text;
    return *this;
  }
  Writer& Marker(int32_t id) {
    Encode();
    tokens_.push_back(id);
    return *this;
  }
  std::vector<int32_t> Take() {
    Encode();
    return std::move(tokens_);
  }

 private:
  void Encode() {
    const std::vector<int32_t> ids = tokenizer_.Encode(text_);
    tokens_.insert(tokens_.end(), ids.begin(), ids.end());
    text_.clear();
  }

  const Tokenizer& tokenizer_;
  std::string text_;
  std::vector<int32_t> tokens_;
};

JsonValue ToolObject(const ToolSpec& tool) {
  JsonValue::Object function{{"name", JsonValue(tool.name)}};
  if (tool.description && !tool.description->empty())
    function.emplace_back("description", JsonValue(*tool.description));
  if (tool.parameters && !tool.parameters->is_null())
    function.emplace_back("parameters", *tool.parameters);
  return JsonValue(JsonValue::Object{{"type", JsonValue(std::string("function"))},
                                     {"function", JsonValue(std::move(function))}});
}

class Renderer {
 public:
  Renderer(const ChatRequest& request, const Qwen3Ids& ids, const Tokenizer& tokenizer)
      : request_(request), messages_(request.messages), ids_(ids), out_(tokenizer) {}

  std::vector<int32_t> Render() {
    const size_t last_query = LastQuery();
    System();
    for (size_t i = 0; i < messages_.size(); ++i) {
      const ChatMessage& message = messages_[i];
      if (message.role == Role::kAssistant) {
        Assistant(message, i > last_query, i + 1 == messages_.size());
      } else if (message.role == Role::kTool) {
        ToolAnswer(i);
      } else if (message.role == Role::kUser) {
        Turn("user", message.content);
      } else if (i > 0) {
        Turn("system", message.content);
      }
    }
    if (!request_.continue_final) {
      Open("assistant");
      if (request_.effort == ReasoningEffort::kNone)
        out_.Marker(ids_.think).Text("\n\n").Marker(ids_.end_think).Text("\n\n");
    }
    return out_.Take();
  }

 private:
  // The last message of the user that is a question, not a tool's answer; without one, the last of
  // all. Thoughts up to there are left out.
  size_t LastQuery() const {
    for (size_t i = messages_.size(); i-- > 0;) {
      const std::string& text = messages_[i].content;
      const bool is_answer =
          text.starts_with("<tool_response>") && text.ends_with("</tool_response>");
      if (messages_[i].role == Role::kUser && messages_[i].has_content && !is_answer) return i;
    }
    return messages_.size() - 1;
  }

  void Open(std::string_view role) { out_.Marker(ids_.start).Text(role).Text("\n"); }
  void Close() { out_.Marker(ids_.end).Text("\n"); }
  void Turn(std::string_view role, std::string_view text) {
    Open(role);
    out_.Text(text);
    Close();
  }

  void System() {
    const bool has_system = !messages_.empty() && IsSystem(messages_[0]);
    if (request_.tools.empty()) {
      if (has_system) Turn("system", messages_[0].content);
      return;
    }
    Open("system");
    if (has_system) out_.Text(messages_[0].content).Text("\n\n");
    out_.Text(kToolsHead);
    for (const ToolSpec& tool : request_.tools) out_.Text("\n").Text(PythonJson(ToolObject(tool)));
    out_.Text(kToolsTail).Marker(ids_.call).Marker(ids_.end_call).Text(" XML tags:\n");
    out_.Marker(ids_.call);
    out_.Text("\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n");
    out_.Marker(ids_.end_call);
    Close();
  }

  void Assistant(const ChatMessage& message, bool is_after_query, bool is_last) {
    std::string_view content = message.content, reasoning = message.reasoning;
    constexpr std::string_view kThink = "<think>", kEndThink = "</think>";
    if (const size_t end = content.find(kEndThink); reasoning.empty() && end != content.npos) {
      reasoning = StripRight(content.substr(0, end));
      if (const size_t begin = reasoning.rfind(kThink); begin != reasoning.npos)
        reasoning.remove_prefix(begin + kThink.size());
      reasoning = StripLeft(reasoning);
      content = StripLeft(content.substr(content.rfind(kEndThink) + kEndThink.size()));
    }
    Open("assistant");
    if (is_after_query && (is_last || !reasoning.empty())) {
      out_.Marker(ids_.think).Text("\n").Text(StripLeft(StripRight(reasoning))).Text("\n");
      out_.Marker(ids_.end_think).Text("\n\n").Text(StripLeft(content));
    } else {
      out_.Text(content);
    }
    for (size_t i = 0; i < message.tool_calls.size(); ++i) {
      const ToolCall& call = message.tool_calls[i];
      if (i > 0 || !content.empty()) out_.Text("\n");
      out_.Marker(ids_.call).Text("\n{\"name\": \"").Text(call.name).Text("\", \"arguments\": ");
      // Clients write "nothing" so.
      const bool is_empty = call.arguments.empty();
      out_.Text(is_empty ? "{}" : std::string_view(call.arguments)).Text("}\n");
      out_.Marker(ids_.end_call);
    }
    if (!(is_last && request_.continue_final)) Close();
  }

  // Neighbours share one turn of the user.
  void ToolAnswer(size_t i) {
    const auto is_tool = [&](size_t at) { return messages_[at].role == Role::kTool; };
    if (i == 0 || !is_tool(i - 1)) out_.Marker(ids_.start).Text("user");
    out_.Text("\n").Marker(ids_.response).Text("\n").Text(messages_[i].content).Text("\n");
    out_.Marker(ids_.end_response);
    if (i + 1 == messages_.size() || !is_tool(i + 1)) Close();
  }

  const ChatRequest& request_;
  const std::vector<ChatMessage>& messages_;
  const Qwen3Ids& ids_;
  Writer out_;
};

// An answer:
//
//   <think> text </think>\n\n   once or not at all; not above the budget
//
// and then one of
//
//   content <|im_end|>, or, where it is free, content before calls
//   calls, each <tool_call>\n{"name": "NAME", "arguments": VALUE}\n</tool_call>, with a line end
//   between two, and <|im_end|>
AnswerPlan Plan(const Qwen3Ids& ids, const Tokenizer& tokenizer, const OutputRules& rules) {
  using Calls = OutputRules::Calls;
  AnswerPlan plan(rules.thinking_budget);
  const auto text = [&](std::string_view s) { return tokenizer.Encode(s); };
  std::vector<int> roots = {0};
  if (rules.may_think) {
    const int after = plan.AddNode(), decided = plan.AddNode();
    const int thoughts = plan.AddBody({.ends = {{ids.end_think, after}}, .is_thoughts = true});
    plan.AddHeader(0, {{ids.think}}, thoughts);
    plan.AddLink(after, text("\n\n"), decided);
    roots.push_back(decided);
  }
  const int call = plan.AddNode(), after_call = plan.AddNode();
  const bool may_call = rules.calls != Calls::kForbidden && !rules.tools.empty();
  for (const int root : roots) {
    if (may_call) plan.AddLink(root, {ids.call}, call);
    if (rules.calls == Calls::kRequired) continue;
    AnswerPlan::Body content{.grammar = rules.content, .ends = {{ids.end, AnswerPlan::kComplete}}};
    if (may_call && rules.content == nullptr) content.ends.emplace(ids.call, call);
    plan.AddHeader(root, {}, plan.AddBody(std::move(content)));
  }
  for (const OutputRules::Tool& tool : rules.tools) {
    std::string head = "\n{\"name\": ";
    AppendJsonString(head, tool.name);
    const int body =
        plan.AddBody({.grammar = tool.arguments, .ends = {{ids.end_call, after_call}}});
    plan.AddHeader(call, {text(head + ", \"arguments\":")}, body);
  }
  plan.AddLink(after_call, {ids.end}, AnswerPlan::kComplete);
  AnswerPlan::Tokens next = text("\n");
  next.push_back(ids.call);
  plan.AddLink(after_call, next, call);
  return plan;
}

class Qwen3 : public ChatFormat {
 public:
  Qwen3(const Qwen3Ids& ids, const Tokenizer& tokenizer)
      : ids_(ids), tokenizer_(tokenizer), stop_ids_{ids.end, ids.end_of_text} {}

  Result<std::vector<int32_t>> Render(const ChatRequest& request) const override {
    if (request.continue_final) ROSE_RETURN_IF_ERROR(CheckContinued(request));
    return Renderer(request, ids_, tokenizer_).Render();
  }
  bool may_skip_thoughts() const override { return true; }
  const std::vector<int32_t>& stop_ids() const override { return stop_ids_; }
  std::unique_ptr<ChatParser> NewParser(std::span<const ToolSpec> tools,
                                        bool continue_final) const override {
    return std::make_unique<Qwen3Parser>(ids_, tokenizer_, tools, continue_final);
  }
  // A call's head ends before the blank, where the tokenizer cuts.
  GrammarSource ArgumentsSource(GrammarSource schema) const override {
    schema.before = " ";
    schema.after = "}\n";
    return schema;
  }
  std::unique_ptr<TokenConstraint> NewConstraint(const OutputRules& rules) const override {
    std::call_once(text_made_, [this] {
      text_ = std::make_shared<const std::vector<uint32_t>>(TextTokens(tokenizer_));
    });
    return std::make_unique<AnswerConstraint>(Plan(ids_, tokenizer_, rules), text_);
  }

 private:
  const Qwen3Ids ids_;
  const Tokenizer& tokenizer_;
  const std::vector<int32_t> stop_ids_;
  mutable std::once_flag text_made_;
  mutable std::shared_ptr<const std::vector<uint32_t>> text_;  // shared by the constraints
};

}  // namespace

Result<Qwen3Ids> FindQwen3Ids(const Tokenizer& tokenizer) {
  Qwen3Ids ids;
  const std::pair<std::string_view, int32_t*> names[] = {
      {"<|im_start|>", &ids.start},           {"<|im_end|>", &ids.end},
      {"<|endoftext|>", &ids.end_of_text},    {"<think>", &ids.think},
      {"</think>", &ids.end_think},           {"<tool_call>", &ids.call},
      {"</tool_call>", &ids.end_call},        {"<tool_response>", &ids.response},
      {"</tool_response>", &ids.end_response}};
  for (const auto& [name, id] : names) {
    const auto found = tokenizer.SpecialId(name);
    if (!found)
      return InvalidArgument("The tokenizer has no special token ", name,
                             ", which the Qwen3 chat format needs.");
    *id = *found;
  }
  return ids;
}

Result<std::unique_ptr<ChatFormat>> CreateQwen3(const Tokenizer& tokenizer) {
  ROSE_ASSIGN_OR_RETURN(const Qwen3Ids ids, FindQwen3Ids(tokenizer));
  return std::unique_ptr<ChatFormat>(std::make_unique<Qwen3>(ids, tokenizer));
}

}  // namespace rose
