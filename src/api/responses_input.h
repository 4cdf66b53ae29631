// The input of a Responses request: items to messages (spec E.8).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/context.h"
#include "api/field_reader.h"
#include "api/responses_store.h"

namespace rose {

struct ResponsesInput {
  // `before` and then what the input says.
  std::vector<ChatMessage> conversation;
  std::vector<ResponseInputItem> items;  // of the input alone; only if they are to be kept
};

// Reads "input": a text, or items. Messages may lack their type. Of a reasoning item its text
// counts; one without (a summary alone, or encrypted) says nothing. The output of a call finds its
// function by call_id among the calls before it, in `before` too. References are looked up among
// the stored responses. Any other type of item is a failure, since its content would be lost.
// Failures go to `error`.
ResponsesInput ReadResponsesInput(const JsonValue& body, const ApiContext& context,
                                  std::vector<ChatMessage> before, bool keep_items,
                                  std::optional<ApiError>& error);

// What the assistant said in one go, thoughts, text and calls, as one message, where items hold it
// in pieces: not every format can say them apart.
std::vector<ChatMessage> JoinTurns(std::span<const ChatMessage> messages);

}  // namespace rose
