// A request of Anthropic's Messages API as one of chat completions.
#pragma once

#include <cstdint>
#include <optional>

#include "api/error.h"
#include "base/json.h"

namespace rose {

struct TranslatedMessages {
  JsonValue chat;          // the body for chat completions, without a limit
  int64_t max_tokens = 0;  // 0 = not given
};

// Texts, thoughts, calls and their results become messages; system, tools, tool_choice,
// stop_sequences and output_config.format what they are called there. How much is thought follows
// from `thinking` and output_config.effort:
//
//   thinking                            effort                                       shown
//   absent                              the default                                  no
//   {"type": "disabled"}                low, or none where the model can             no
//   {"type": "enabled", budget_tokens}  low below 2048, medium below 16384, else high  yes
//   {"type": "adaptive"}                the default                                  yes
//
// An output_config.effort decides the effort instead ("max" and "xhigh" are high), and "display":
// "omitted" hides the thoughts. cache_control, metadata and the signatures of thoughts have no
// effect; a tool_result with is_error begins with "Error: ".
//
// A last message that is a text of the assistant is continued. Images, documents and tools that run
// at the provider are failures, as are wrong types; `error` keeps the first, which names the field.
TranslatedMessages TranslateMessages(const JsonValue& body, std::optional<ApiError>& error);

}  // namespace rose
