// The chat format of Qwen3 behind ChatFormat: ChatML with thoughts and JSON calls. Prompts are
// those of the template that is published with Qwen3-30B-A3B (decisions in docs/chat.md).
#pragma once

#include <memory>

#include "chat/chat_format.h"

namespace rose {

// The format's markers, by their ids in one vocabulary.
struct Qwen3Ids {
  int32_t start = 0, end = 0, end_of_text = 0;  // <|im_start|>, <|im_end|>, <|endoftext|>
  int32_t think = 0, end_think = 0;
  int32_t call = 0, end_call = 0;          // <tool_call>
  int32_t response = 0, end_response = 0;  // <tool_response>
};

// kInvalidArgument naming the marker that the tokenizer lacks.
Result<Qwen3Ids> FindQwen3Ids(const Tokenizer& tokenizer);
Result<std::unique_ptr<ChatFormat>> CreateQwen3(const Tokenizer& tokenizer);

}  // namespace rose
