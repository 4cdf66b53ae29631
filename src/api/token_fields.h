// Fields of a request that vLLM added to the API, most of which speak of single tokens (spec E.3).
#pragma once

#include <cstdint>

#include "api/generation.h"

namespace rose {

// Of the API: tokens whose logprobs may be asked for, beside each that was drawn.
inline constexpr int64_t kMaxTopLogprobs = 20;

// allowed_token_ids, bad_words (texts, each also with a blank before it), logprob_token_ids,
// prompt_logprobs (-1 = the whole vocabulary; not in streams), return_token_ids,
// return_tokens_as_token_ids, cache_salt, priority (lower is served first, Request::priority).
// After the stream fields.
void ReadTokenFields(FieldReader& fields, const ApiContext& context, Generation& out);

// Logprobs of the whole vocabulary are for a few positions: a 400 on `name` if there are more than
// fit in an answer. Nothing to check for any other number of logprobs.
void CheckWholeVocabulary(FieldReader& fields, const ApiContext& context, std::string_view name,
                          int64_t logprobs, int64_t positions);

// A list of token ids under `name`; nothing if absent.
std::vector<int32_t> ReadTokenIds(FieldReader& fields, const ApiContext& context,
                                  std::string_view name);

}  // namespace rose
