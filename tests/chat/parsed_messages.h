// Events folded back into messages, for tests; checks that begins, texts and ends nest.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "chat/chat_format.h"

namespace rose {

struct ParsedMessage {
  std::string author, channel, recipient, content_type, tool_name, text;
  ChatEvent::Target target = ChatEvent::Target::kContent;
  bool complete = false;
  bool operator==(const ParsedMessage&) const = default;
};

struct Parsed {
  std::vector<ParsedMessage> messages;
  std::string dropped;
  bool operator==(const Parsed&) const = default;

  // Texts of one target, joined by '|'.
  std::string Of(ChatEvent::Target target) const {
    std::string out;
    for (const ParsedMessage& message : messages)
      if (message.target == target) out += (out.empty() ? "" : "|") + message.text;
    return out;
  }
  std::string content() const { return Of(ChatEvent::Target::kContent); }
  std::string reasoning() const { return Of(ChatEvent::Target::kReasoning); }
  // "f({})|g()"
  std::string calls() const {
    std::string out;
    for (const ParsedMessage& message : messages)
      if (message.target == ChatEvent::Target::kToolCall)
        out += (out.empty() ? "" : "|") + message.tool_name + "(" + message.text + ")";
    return out;
  }
};

inline Parsed Fold(const std::vector<ChatEvent>& events) {
  Parsed parsed;
  bool open = false;
  for (const ChatEvent& event : events) {
    switch (event.kind) {
      case ChatEvent::Kind::kBegin:
        EXPECT_FALSE(open);
        open = true;
        parsed.messages.push_back({event.author, event.channel, event.recipient, event.content_type,
                                   event.tool_name, "", event.target, false});
        EXPECT_EQ(event.target == ChatEvent::Target::kToolCall, !event.tool_name.empty());
        break;
      case ChatEvent::Kind::kText:
        EXPECT_TRUE(open && !event.text.empty());
        EXPECT_EQ(parsed.messages.back().target, event.target);
        parsed.messages.back().text += event.text;
        break;
      case ChatEvent::Kind::kEnd:
        EXPECT_TRUE(open);
        open = false;
        parsed.messages.back().complete = event.complete;
        break;
      case ChatEvent::Kind::kDropped:
        EXPECT_FALSE(event.text.empty());
        parsed.dropped += event.text;
        break;
    }
  }
  EXPECT_FALSE(open);
  return parsed;
}

}  // namespace rose
