// A conversation with a model in this process: questions in, answers shown as they stream.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "answer_printer.h"
#include "base/status.h"
#include "chat/chat_format.h"
#include "engine/engine.h"

namespace rose {

struct ConversationOptions {
  std::string system;  // instructions; empty = none
  ReasoningEffort effort = ReasoningEffort::kMedium;
  int64_t max_tokens = 0;  // of an answer; 0 = what the context leaves
  SamplingParams sampling;
};

class Conversation {
 public:
  // `engine` and `format` outlive the conversation.
  Conversation(Engine& engine, const ChatFormat& format, ConversationOptions options);

  // Asks, shows the answer, keeps both. An answer that was stopped is kept as far as it came. A
  // question that does not fit the context is a failure and is not kept.
  Status Ask(std::string_view question, AnswerPrinter& printer);
  // Forgets all but the instructions.
  void Reset();
  void SetEffort(ReasoningEffort effort) { options_.effort = effort; }

  // Stops the answer under way; false if there is none, or it is being stopped already. From any
  // thread.
  bool Stop();

 private:
  ChatRequest RequestOf(std::string_view question) const;
  Result<Request> Prepare(const ChatRequest& chat) const;

  Engine& engine_;
  const ChatFormat& format_;
  ConversationOptions options_;
  std::vector<ChatMessage> messages_;  // after the instructions
  std::atomic<RequestId> running_ = 0;
};

}  // namespace rose
