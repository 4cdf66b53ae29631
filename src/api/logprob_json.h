// One token's entry in "logprobs": {"content": [...]} (spec E.5).
#pragma once

#include <string>

#include "request/request.h"
#include "tokenizer/tokenizer.h"

namespace rose {

// {"token", "logprob", "bytes", "top_logprobs"}. Bytes that are no character are U+FFFD in "token";
// an id without an entry has an empty token and no bytes. Minus infinity is -9999.
std::string LogprobJson(const SampledToken& token, const Tokenizer& tokenizer);

}  // namespace rose
