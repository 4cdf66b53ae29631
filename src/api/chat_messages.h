// The messages of a chat request (spec E.3, E.4): every shape that clients send.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/field_reader.h"
#include "chat/chat_format.h"

namespace rose {

// Reads "messages". Content may be a string, a list of text parts, null or absent in every role. A
// tool's message finds its function by tool_call_id among the calls before it. Of the names that
// thoughts come under, `reasoning` wins over `reasoning_content` over `thinking`. A name of a user
// is ignored. Failures go to `error`.
std::vector<ChatMessage> ReadMessages(const JsonValue& body, std::optional<ApiError>& error);

// The text of a field that may be a string, a list of text parts, null or absent.
std::string ReadContent(FieldReader& fields, std::string_view name, std::optional<ApiError>& error);

}  // namespace rose
