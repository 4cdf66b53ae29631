// Endpoints that say what a request is in tokens, without generating (spec E.11): POST /tokenize,
// /detokenize, /v1/chat/completions/render and /v1/completions/render.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "api/context.h"
#include "api/error.h"

namespace rose {

// A response's body, or why there is none.
using Reply = std::variant<std::string, ApiError>;

// `prompt` as /v1/completions reads a text, or a chat request's `messages`, tools and so on as
// /v1/chat/completions renders them; both of any length. {"count", "max_model_len", "tokens",
// "token_strs"}.
Reply Tokenize(std::string_view body, const ApiContext& context, int64_t now);
// `tokens` to {"prompt"}; bytes that are no character become U+FFFD.
Reply Detokenize(std::string_view body, const ApiContext& context, int64_t now);
// {"token_ids"}: exactly what the generating endpoint would compute, and refused where that would
// refuse.
Reply RenderChatCompletion(std::string_view body, const ApiContext& context, int64_t now);
// The same, a list with an entry for each prompt.
Reply RenderCompletion(std::string_view body, const ApiContext& context, int64_t now);

}  // namespace rose
