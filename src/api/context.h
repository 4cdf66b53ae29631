// What the server is, to the endpoints: set once at start, read by every request.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/chat_format.h"
#include "grammar/compiler.h"
#include "request/request.h"
#include "tokenizer/tokenizer.h"

namespace rose {

class ResponseStore;

// The pointers outlive all requests.
struct ApiContext {
  std::vector<std::string> models;  // served names, at least one; the first is the default
  const ChatFormat* format = nullptr;
  const Tokenizer* tokenizer = nullptr;
  GrammarCompiler* grammars = nullptr;  // null: built without, and structured output is refused
  int64_t max_context = 0;              // tokens of prompt + answer
  int64_t vocab = 0;                    // ids in [0, vocab) are tokens of the model
  SamplingParams defaults;              // where the request says nothing (generation_config.json)
  std::string fixed_date;  // "YYYY-MM-DD" for the system message; empty = the day (UTC) of `now`
  int64_t max_choices = 128;
  int64_t max_requests = INT64_MAX;    // that the engine has places for, running and waiting
  int64_t max_prompt_total = 1 << 22;  // tokens of the prompt times choices
  ResponseStore* responses = nullptr;  // null: the Responses API stores nothing
  // Random text, new at every call; thread-safe. Empty = RandomHex.
  std::function<std::string()> new_id;

  // `prefix` and random text: "chatcmpl-..."
  std::string NewId(std::string_view prefix) const;
};

// 32 random hexadecimal digits from the operating system.
std::string RandomHex();
// "YYYY-MM-DD" in UTC.
std::string UtcDate(int64_t unix_seconds);

}  // namespace rose
