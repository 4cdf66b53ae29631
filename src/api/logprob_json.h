// Tokens and their logprobs as the endpoints write them (spec E.5, E.7).
#pragma once

#include <string>
#include <vector>

#include "api/json_writer.h"
#include "request/request.h"
#include "tokenizer/tokenizer.h"

namespace rose {

// One token's entry in "logprobs": {"content": [...]}: {"token", "logprob", "bytes",
// "top_logprobs"}. Bytes that are no character are U+FFFD in "token"; an id without an entry has an
// empty token and no bytes. With `as_ids`, "token" is "token_id:17".
std::string LogprobJson(const SampledToken& token, const Tokenizer& tokenizer, bool as_ids = false);

// A logprob as JSON can have it: minus infinity is -9999.
float JsonLogprob(float logprob);

// The text of a token where there is no room for its bytes: what is no text alone is written
// "bytes:\xe2\x80", so that different tokens have different names.
std::string TokenName(int32_t id, const Tokenizer& tokenizer);

// "prompt_logprobs": null for the first token of a prompt, then for each of `scores` an object of
// the `top` most likely and the token itself: {"17": {"logprob", "rank", "decoded_token"}}. The
// rank of a token that is not among the most likely is null.
void WritePromptLogprobs(JsonWriter& json, const std::vector<SampledToken>& scores, int64_t top,
                         const Tokenizer& tokenizer);

}  // namespace rose
