// The Harmony chat format of gpt-oss behind ChatFormat (spec D, E.4; decisions in docs/chat.md).
#pragma once

#include <memory>
#include <vector>

#include "chat/chat_format.h"
#include "chat/harmony_message.h"

namespace rose {

// A conversation of the API in the format's messages, thoughts included:
// system (identity, date, effort, channels), developer (instructions, tools, response format; left
// out if there is nothing to say), and the turns. A later instruction stays in place, in a
// developer message of its own. The only error is a tool whose schema cannot be printed, found when
// rendered.
std::vector<HarmonyMessage> HarmonyConversation(const ChatRequest& request);

// kInvalidArgument if the tokenizer lacks one of the format's markers.
Result<std::unique_ptr<ChatFormat>> CreateHarmony(const Tokenizer& tokenizer);

}  // namespace rose
