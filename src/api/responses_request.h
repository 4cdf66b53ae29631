// POST /v1/responses: the body, understood (spec E.8).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "api/answer.h"
#include "api/chat_tools.h"
#include "api/context.h"
#include "api/generation.h"
#include "api/responses_record.h"
#include "api/responses_store.h"

namespace rose {

struct ResponsesCall : Generation {
  ResponseHead head;
  bool store = true;
  std::vector<ChatMessage> conversation;       // without the instructions
  std::vector<ResponseInputItem> input;        // if it is stored
  std::map<std::string, ToolName> namespaced;  // functions by the names that the model knows
};

// Parses and checks a body, finds what it continues among context.responses, renders the prompt.
// `now` is in Unix seconds. Errors as those of ParseChatRequest; a previous_response_id that is not
// stored is a 404. null, {} and [] count as absent; unknown fields are ignored.
std::variant<ResponsesCall, ApiError> ParseResponsesRequest(std::string_view body,
                                                            const ApiContext& context, int64_t now);

// 404 for a response that is not stored.
ApiError UnknownResponse(std::string_view id);

}  // namespace rose
