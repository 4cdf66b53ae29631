// What a response object repeats of its request (spec E.9).
#pragma once

#include <optional>
#include <string>

#include "api/responses_request.h"

namespace rose {

// Members of the response object, as JSON without braces; absent fields as their defaults. Checks
// the fields that have no other effect: metadata, max_tool_calls, service_tier, user,
// prompt_cache_key, safety_identifier, reasoning.summary, text.verbosity.
std::string ResponseEcho(const JsonValue& body, const ResponsesCall& call,
                         std::optional<ApiError>& error);

}  // namespace rose
