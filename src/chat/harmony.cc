#include "chat/harmony.h"

#include <mutex>

#include "chat/harmony_builtin.h"
#include "chat/harmony_constraint.h"
#include "chat/harmony_parser.h"
#include "chat/harmony_render.h"

namespace rose {
namespace {

constexpr std::string_view kIdentity = "You are ChatGPT, a large language model trained by OpenAI.";
constexpr std::string_view kKnowledgeCutoff = "2024-06";
constexpr std::string_view kCallType = "<|constrain|>json";

bool IsInstruction(const ChatMessage& message) {
  return message.role == Role::kSystem || message.role == Role::kDeveloper;
}

HarmonyMessage SystemMessage(const ChatRequest& request) {
  HarmonySystem system;
  system.identity = kIdentity;
  system.knowledge_cutoff = kKnowledgeCutoff;
  if (!request.date.empty()) system.date = request.date;
  // It always thinks.
  const bool none = request.effort == ReasoningEffort::kNone;
  system.effort = none ? ReasoningEffort::kLow : request.effort;
  for (const std::string& name : request.builtin_tools) {
    auto tool = BuiltinTool(name);
    if (!tool) continue;
    if (!system.tools) system.tools.emplace();
    system.tools->emplace(name, std::move(*tool));
  }
  system.channels = HarmonySystem::Channels{{"analysis", "commentary", "final"}, true};
  return {.role = Role::kSystem, .content = {std::move(system)}};
}

HarmonyMessage DeveloperMessage(HarmonyDeveloper developer) {
  return {.role = Role::kDeveloper, .content = {std::move(developer)}};
}

// What stands before the first turn, folded into one message; `instructions` may be empty.
void AddFirstDeveloper(const ChatRequest& request, std::string instructions,
                       std::vector<HarmonyMessage>& out) {
  HarmonyDeveloper developer;
  if (!instructions.empty()) developer.instructions = std::move(instructions);
  if (!request.tools.empty()) {
    HarmonyNamespace& functions = developer.tools.emplace()["functions"];
    functions.name = "functions";
    for (const ToolSpec& tool : request.tools)
      functions.tools.push_back({tool.name, tool.description.value_or(""), tool.parameters});
  }
  developer.response_format = request.response_format;
  if (developer.instructions || developer.tools || developer.response_format)
    out.push_back(DeveloperMessage(std::move(developer)));
}

HarmonyMessage Spoken(std::string channel, std::string text) {
  return {.role = Role::kAssistant, .channel = std::move(channel), .content = {std::move(text)}};
}

void AddAssistant(const ChatMessage& message, std::vector<HarmonyMessage>& out) {
  if (!message.reasoning.empty()) out.push_back(Spoken("analysis", message.reasoning));
  const bool has_calls = !message.tool_calls.empty();
  // An empty text beside thoughts or calls is how clients write "none".
  if (message.has_content &&
      (!message.content.empty() || (!has_calls && message.reasoning.empty())))
    out.push_back(
        Spoken(has_calls || message.is_preamble ? "commentary" : "final", message.content));
  for (const ToolCall& call : message.tool_calls) {
    HarmonyMessage spoken = Spoken("commentary", call.arguments);
    spoken.recipient = "functions." + call.name;
    spoken.content_type = kCallType;
    out.push_back(std::move(spoken));
  }
}

void AddTurn(const ChatMessage& message, std::vector<HarmonyMessage>& out) {
  switch (message.role) {
    case Role::kSystem:
    case Role::kDeveloper:
      if (message.content.empty()) return;
      out.push_back(DeveloperMessage({.instructions = message.content}));
      return;
    case Role::kUser:
      out.push_back({.role = Role::kUser, .content = {message.content}});
      return;
    case Role::kAssistant:
      AddAssistant(message, out);
      return;
    case Role::kTool:
      out.push_back({.role = Role::kTool,
                     .name = "functions." + message.tool_name,
                     .recipient = "assistant",
                     .channel = "commentary",
                     .content = {message.content}});
      return;
  }
}

class Harmony : public ChatFormat {
 public:
  Harmony(const HarmonyIds& ids, const Tokenizer& tokenizer)
      : ids_(ids),
        tokenizer_(tokenizer),
        // <|end|> does not stop: the model goes on with its next message.
        stop_ids_{ids.return_, ids.call, ids.end_of_text} {}

  Result<std::vector<int32_t>> Render(const ChatRequest& request) const override {
    HarmonyRenderOptions options;
    if (request.continue_final) {
      ROSE_RETURN_IF_ERROR(CheckContinued(request));
      options.purpose = HarmonyRenderOptions::Purpose::kContinuation;
    }
    return RenderHarmony(HarmonyConversation(request), options, ids_, tokenizer_);
  }
  bool may_skip_thoughts() const override { return false; }
  const std::vector<int32_t>& stop_ids() const override { return stop_ids_; }
  std::unique_ptr<ChatParser> NewParser(std::span<const ToolSpec> tools,
                                        bool continue_final) const override {
    using Start = HarmonyParser::Start;
    return std::make_unique<HarmonyParser>(
        ids_, tokenizer_, tools, continue_final ? Start::kFinalBody : Start::kAssistantHeader);
  }
  // A call's message holds its arguments and nothing else.
  GrammarSource ArgumentsSource(GrammarSource schema) const override { return schema; }
  std::unique_ptr<TokenConstraint> NewConstraint(const OutputRules& rules) const override {
    std::call_once(text_made_, [this] {
      text_ = std::make_shared<const std::vector<uint32_t>>(TextTokens(tokenizer_));
    });
    return std::make_unique<AnswerConstraint>(HarmonyPlan(ids_, tokenizer_, rules), text_);
  }

 private:
  const HarmonyIds ids_;
  const Tokenizer& tokenizer_;
  const std::vector<int32_t> stop_ids_;
  mutable std::once_flag text_made_;
  mutable std::shared_ptr<const std::vector<uint32_t>> text_;  // shared by the constraints
};

}  // namespace

std::vector<HarmonyMessage> HarmonyConversation(const ChatRequest& request) {
  std::vector<HarmonyMessage> out = {SystemMessage(request)};
  std::string instructions;
  size_t turn = 0;
  for (; turn < request.messages.size() && IsInstruction(request.messages[turn]); ++turn) {
    const std::string& text = request.messages[turn].content;
    if (!instructions.empty() && !text.empty()) instructions += "\n\n";
    instructions += text;
  }
  AddFirstDeveloper(request, std::move(instructions), out);
  for (; turn < request.messages.size(); ++turn) AddTurn(request.messages[turn], out);
  return out;
}

Result<std::unique_ptr<ChatFormat>> CreateHarmony(const Tokenizer& tokenizer) {
  ROSE_ASSIGN_OR_RETURN(const HarmonyIds ids, FindHarmonyIds(tokenizer));
  return std::unique_ptr<ChatFormat>(std::make_unique<Harmony>(ids, tokenizer));
}

}  // namespace rose
