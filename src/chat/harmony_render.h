// Harmony messages to tokens, exact with the reference (spec D.1 to D.5). Every fragment of text is
// encoded on its own as ordinary text, so nothing that a user writes becomes a marker.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "chat/harmony_message.h"
#include "tokenizer/tokenizer.h"

namespace rose {

// The format's markers, by their ids in one vocabulary.
struct HarmonyIds {
  int32_t start = 0, end = 0, message = 0, channel = 0, constrain = 0, call = 0, return_ = 0;
  int32_t end_of_text = 0;
};

// kInvalidArgument naming the marker that the tokenizer lacks.
Result<HarmonyIds> FindHarmonyIds(const Tokenizer& tokenizer);

struct HarmonyRenderOptions {
  enum class Purpose {
    kConversation,
    kCompletion,  // and then <|start|> and `next_role`
    kTraining,    // a last message of the assistant on "final" ends with <|return|>
    // The last message has no end, so that it can be gone on with. It is none of the answers that
    // decide which thoughts are left out.
    kContinuation,
  };
  // Which thoughts (messages on "analysis") are left out.
  enum class Drop {
    kNothing,
    kBeforeFirstFinal,  // the reference: and only if the assistant's last message is on "final"
    kBeforeLastFinal,   // the API: a running tool loop keeps its thoughts, older turns do not
  };
  Purpose purpose = Purpose::kCompletion;
  std::string next_role = "assistant";
  Drop drop = Drop::kBeforeLastFinal;
};

// kInvalidArgument for a tool message without a name, for system or developer content in a message
// of another role, and for a schema that cannot be printed.
Result<std::vector<int32_t>> RenderHarmony(std::span<const HarmonyMessage> messages,
                                           const HarmonyRenderOptions& options,
                                           const HarmonyIds& ids, const Tokenizer& tokenizer);

}  // namespace rose
