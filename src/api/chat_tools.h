// Tools, tool_choice and response_format of a chat request (spec E.3).
#pragma once

#include <optional>
#include <vector>

#include "api/field_reader.h"
#include "chat/chat_format.h"

namespace rose {

struct ToolFields {
  std::vector<ToolSpec> tools;  // what the model is shown: none under tool_choice "none"
  bool calls_allowed = false;
};

// `strict` is accepted; nothing is enforced yet, so arguments are what the model writes. A forced
// choice ("required" or a name) is a 400, since it could not be kept.
ToolFields ReadTools(const JsonValue& body, std::optional<ApiError>& error);

// "text" is none. A schema is shown to the model, not enforced.
std::optional<ResponseFormat> ReadResponseFormat(const JsonValue& body,
                                                 std::optional<ApiError>& error);

}  // namespace rose
