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
  bool call_required = false;  // by "required"
  std::string only_call;       // the function that must be called; empty = none
};

// All tools are shown to the model, whichever it must call.
ToolFields ReadTools(const JsonValue& body, std::optional<ApiError>& error);

// "text" is none. A schema is shown to the model, not enforced.
std::optional<ResponseFormat> ReadResponseFormat(const JsonValue& body,
                                                 std::optional<ApiError>& error);

}  // namespace rose
