// What the answers that are lists of choices write alike: chat completions and completions (spec
// E.5 to E.7), whole and as stream chunks.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "api/answer.h"
#include "api/generation.h"
#include "api/json_writer.h"

namespace rose {

struct Usage {
  int64_t prompt_tokens = 0;      // of all prompts, each once
  int64_t completion_tokens = 0;  // all that were sampled, stop tokens included
  int64_t cached_tokens = 0;      // prompt tokens that came from the prefix cache
  int64_t reasoning_tokens = 0;
};

void WriteUsage(JsonWriter& json, const Usage& usage);
// The members that open a body or chunk: id, object, created, model. The object stays open.
void WriteHead(JsonWriter& json, const Generation& call, std::string_view object);
// The "usage" member of a chunk, as the stream's options ask for it.
void WriteChunkUsage(JsonWriter& json, const Generation& call, const Usage& usage);
// The member `name`: ids if return_token_ids asks for them, else null.
void WriteIds(JsonWriter& json, const Generation& call, std::string_view name,
              const std::vector<int32_t>& ids);
// The last events of a stream: the usage if it was asked for and nothing failed, and "[DONE]".
void FinishChunks(const Generation& call, std::string_view object, bool failed, const Usage& usage,
                  std::vector<StreamEvent>& events);

}  // namespace rose
