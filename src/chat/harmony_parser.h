// Sampled Harmony tokens to events (spec D.9, but total: see docs/chat.md for what broken streams
// mean).
#pragma once

#include <set>
#include <string>

#include "chat/chat_format.h"
#include "chat/harmony_header.h"
#include "chat/harmony_render.h"

namespace rose {

class HarmonyParser : public ChatParser {
 public:
  enum class Start {
    kAssistantHeader,  // the prompt ended with "<|start|>assistant"
    kBetweenMessages,  // the stream brings its own <|start|>
    kFinalBody,        // the prompt ended inside the body of a message on "final"
  };

  // `tokenizer` outlives the parser.
  HarmonyParser(const HarmonyIds& ids, const Tokenizer& tokenizer, std::span<const ToolSpec> tools,
                Start start);

  void Push(int32_t token, std::vector<ChatEvent>& events) override;
  void Finish(std::vector<ChatEvent>& events) override;

 private:
  enum class State { kBetween, kHeader, kBody };

  void PushBetween(int32_t token, std::vector<ChatEvent>& events);
  void PushHeader(int32_t token, std::vector<ChatEvent>& events);
  void PushBody(int32_t token, std::vector<ChatEvent>& events);

  bool ClosesMessage(int32_t token) const;
  void OpenHeader(bool names_author, std::vector<ChatEvent>& events);
  void BeginBody(HeaderForm form, std::vector<ChatEvent>& events);
  void EndBody(bool complete, std::vector<ChatEvent>& events);
  // The header ended without <|message|>: a body that got stuck in it becomes a message.
  void AbandonHeader(std::vector<ChatEvent>& events);
  void EmitText(std::string text, std::vector<ChatEvent>& events);
  void EmitDropped(std::string text, std::vector<ChatEvent>& events);
  ChatEvent BeginEvent(const HarmonyHeader& header) const;

  // The message that the prompt left open, once there is news.
  void BeginContinued(std::vector<ChatEvent>& events);

  const HarmonyIds ids_;
  const Tokenizer& tokenizer_;
  std::set<std::string, std::less<>> tool_names_;
  State state_;
  bool continues_ = false;     // inside a message whose begin is still to be said
  bool names_author_ = false;  // the open header began with <|start|>
  int64_t header_tokens_ = 0;
  std::string text_;   // of the open header, or between messages
  Utf8Stream stream_;  // of whatever is open
  ChatEvent::Target target_ = ChatEvent::Target::kContent;
};

}  // namespace rose
