// The "usage" of an answer of the chat and completion endpoints (spec E.5).
#pragma once

#include <cstdint>

#include "api/json_writer.h"

namespace rose {

struct Usage {
  int64_t prompt_tokens = 0;      // of all prompts, each once
  int64_t completion_tokens = 0;  // all that were sampled, stop tokens included
  int64_t cached_tokens = 0;      // prompt tokens that came from the prefix cache
  int64_t reasoning_tokens = 0;
};

void WriteUsage(JsonWriter& json, const Usage& usage);

}  // namespace rose
