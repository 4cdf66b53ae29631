#include "chat/harmony_render.h"

#include <algorithm>

#include "chat/harmony_text.h"

namespace rose {
namespace {

constexpr std::string_view kConstrain = "<|constrain|>";

bool DeclaresFunctions(std::span<const HarmonyMessage> messages) {
  for (const HarmonyMessage& message : messages) {
    for (const HarmonyContent& content : message.content) {
      const auto* developer = std::get_if<HarmonyDeveloper>(&content);
      if (!developer || !developer->tools) continue;
      const auto functions = developer->tools->find("functions");
      if (functions != developer->tools->end() && !functions->second.tools.empty()) return true;
    }
  }
  return false;
}

// Thoughts before this index are left out.
size_t DropEnd(std::span<const HarmonyMessage> messages, HarmonyRenderOptions::Drop drop) {
  const auto is_final = [](const HarmonyMessage& m) { return m.channel == "final"; };
  const auto is_answer = [](const HarmonyMessage& m) { return m.role == Role::kAssistant; };
  switch (drop) {
    case HarmonyRenderOptions::Drop::kNothing:
      return 0;
    case HarmonyRenderOptions::Drop::kBeforeFirstFinal: {
      const auto last = std::find_if(messages.rbegin(), messages.rend(), is_answer);
      if (last == messages.rend() || !is_final(*last)) return 0;
      return std::find_if(messages.begin(), messages.end(), is_final) - messages.begin();
    }
    case HarmonyRenderOptions::Drop::kBeforeLastFinal:
      return messages.rend() - std::find_if(messages.rbegin(), messages.rend(), is_final);
  }
  ROSE_CHECK(false, "drop rule ", static_cast<int>(drop));
}

class Renderer {
 public:
  Renderer(const HarmonyIds& ids, const Tokenizer& tokenizer, bool has_functions)
      : ids_(ids), tokenizer_(tokenizer), has_functions_(has_functions) {}

  // Up to the end of the body.
  Status OpenMessage(const HarmonyMessage& message) {
    tokens_.push_back(ids_.start);
    if (message.role == Role::kTool) {
      if (!message.name) return InvalidArgument("A tool message needs the name of its tool.");
      Text(*message.name);
    } else {
      Text(RoleName(message.role));
      if (message.name) Text(":" + *message.name);
    }
    if (message.recipient && *message.recipient != "all") Text(" to=" + *message.recipient);
    if (message.channel) {
      tokens_.push_back(ids_.channel);
      Text(*message.channel);
    }
    if (message.content_type) ContentType(*message.content_type);
    tokens_.push_back(ids_.message);
    for (const HarmonyContent& content : message.content)
      ROSE_RETURN_IF_ERROR(Content(message.role, content));
    return Status();
  }

  Status Message(const HarmonyMessage& message) {
    ROSE_RETURN_IF_ERROR(OpenMessage(message));
    const bool is_call = message.role == Role::kAssistant && message.recipient;
    tokens_.push_back(is_call ? ids_.call : ids_.end);
    return Status();
  }

  void Text(std::string_view text) {
    const std::vector<int32_t> ids = tokenizer_.Encode(text);
    tokens_.insert(tokens_.end(), ids.begin(), ids.end());
  }

  std::vector<int32_t>& tokens() { return tokens_; }

 private:
  // The one place where a marker may come from a field's text: at its very start.
  void ContentType(std::string_view type) {
    if (!type.starts_with(kConstrain)) {
      Text(" " + std::string(type));
      return;
    }
    Text(" ");
    tokens_.push_back(ids_.constrain);
    Text(type.substr(kConstrain.size()));
  }

  Status Content(Role role, const HarmonyContent& content) {
    if (const auto* text = std::get_if<std::string>(&content)) {
      Text(*text);
      return Status();
    }
    if (const auto* system = std::get_if<HarmonySystem>(&content)) {
      if (role != Role::kSystem)
        return InvalidArgument("System content may stand in system messages only, not in ",
                               RoleName(role), ".");
      ROSE_ASSIGN_OR_RETURN(const std::string text, SystemText(*system, has_functions_));
      Text(text);
      return Status();
    }
    if (role != Role::kDeveloper)
      return InvalidArgument("Developer content may stand in developer messages only, not in ",
                             RoleName(role), ".");
    ROSE_ASSIGN_OR_RETURN(const std::string text,
                          DeveloperText(std::get<HarmonyDeveloper>(content)));
    Text(text);
    return Status();
  }

  const HarmonyIds& ids_;
  const Tokenizer& tokenizer_;
  const bool has_functions_;
  std::vector<int32_t> tokens_;
};

}  // namespace

Result<HarmonyIds> FindHarmonyIds(const Tokenizer& tokenizer) {
  HarmonyIds ids;
  const std::pair<std::string_view, int32_t*> names[] = {
      {"<|start|>", &ids.start},     {"<|end|>", &ids.end},
      {"<|message|>", &ids.message}, {"<|channel|>", &ids.channel},
      {kConstrain, &ids.constrain},  {"<|call|>", &ids.call},
      {"<|return|>", &ids.return_},  {"<|endoftext|>", &ids.end_of_text}};
  for (const auto& [name, id] : names) {
    const auto found = tokenizer.SpecialId(name);
    if (!found)
      return InvalidArgument("The tokenizer has no special token ", name,
                             ", which the Harmony chat format needs.");
    *id = *found;
  }
  return ids;
}

Result<std::vector<int32_t>> RenderHarmony(std::span<const HarmonyMessage> messages,
                                           const HarmonyRenderOptions& options,
                                           const HarmonyIds& ids, const Tokenizer& tokenizer) {
  using Purpose = HarmonyRenderOptions::Purpose;
  Renderer renderer(ids, tokenizer, DeclaresFunctions(messages));
  const bool leaves_open = options.purpose == Purpose::kContinuation && !messages.empty();
  const auto closed = messages.first(messages.size() - (leaves_open ? 1 : 0));
  const size_t drop_end = DropEnd(closed, options.drop);
  for (size_t i = 0; i < closed.size(); ++i) {
    if (i < drop_end && closed[i].channel == "analysis") continue;
    ROSE_RETURN_IF_ERROR(renderer.Message(closed[i]));
  }
  if (leaves_open) ROSE_RETURN_IF_ERROR(renderer.OpenMessage(messages.back()));
  std::vector<int32_t>& tokens = renderer.tokens();
  if (options.purpose == Purpose::kCompletion) {
    tokens.push_back(ids.start);
    renderer.Text(options.next_role);
  }
  if (options.purpose == Purpose::kTraining && !messages.empty() && !tokens.empty() &&
      messages.back().role == Role::kAssistant && messages.back().channel == "final")
    tokens.back() = ids.return_;
  return std::move(tokens);
}

}  // namespace rose
