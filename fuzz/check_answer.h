// What must hold of any token stream read as an answer of a chat format: events that nest, valid
// UTF-8, and the same answer streamed or not.
#pragma once

#include <string>
#include <vector>

#include "api/chat_completions.h"
#include "base/json.h"
#include "base/utf8.h"

namespace rose {

inline void CheckEvents(const ChatFormat& format, const std::vector<int32_t>& tokens) {
  const auto parser = format.NewParser({});
  std::vector<ChatEvent> events;
  for (const int32_t token : tokens) parser->Push(token, events);
  parser->Finish(events);
  bool open = false;
  for (const ChatEvent& event : events) {
    using Kind = ChatEvent::Kind;
    if (event.kind != Kind::kDropped) ROSE_CHECK_EQ(open, event.kind != Kind::kBegin);
    if (event.kind == Kind::kBegin) open = true;
    if (event.kind == Kind::kEnd) open = false;
    for (const auto* text : {&event.author, &event.channel, &event.recipient, &event.content_type,
                             &event.tool_name, &event.text})
      ROSE_CHECK(IsValidUtf8(*text));
  }
  ROSE_CHECK(!open);
}

// The visible text of an answer.
inline std::string ContentOf(const ChatCall& call, const ApiContext& context,
                             const std::vector<int32_t>& tokens) {
  ChatAnswer answer(call, context);
  std::vector<StreamEvent> chunks;
  for (const int32_t token : tokens) answer.Push(0, {.tokens = {{.id = token}}}, chunks);
  answer.Push(0, {.finish = FinishReason::kLength}, chunks);
  ROSE_CHECK(answer.done());
  if (!call.stream) {
    const auto body = ParseJson(answer.Body());
    const auto& choice = (*body->Find("choices")->array())[0];
    const auto* content = choice.Find("message")->Find("content")->string();
    return content ? *content : "";
  }
  std::string out;
  for (const StreamEvent& chunk : chunks) {
    const auto json = ParseJson(chunk.data);
    const auto& choice = (*json->Find("choices")->array())[0];
    if (const auto* content = choice.Find("delta")->Find("content")) out += *content->string();
  }
  return out;
}

// Both; `may_call`: whether calls are for the client.
inline void CheckAnswer(const ChatFormat& format, const Tokenizer& tokenizer,
                        const std::vector<int32_t>& tokens, bool may_call) {
  CheckEvents(format, tokens);
  ApiContext context;
  context.models = {"m"};
  context.format = &format;
  context.tokenizer = &tokenizer;
  ChatCall call;
  call.calls_allowed = may_call;
  call.stop = {"ab", "b\n"};
  call.request.stop_ids = format.stop_ids();
  call.request.sampling.logprobs = 0;
  const std::string whole = ContentOf(call, context, tokens);
  call.stream = true;
  ROSE_CHECK(ContentOf(call, context, tokens) == whole);
}

}  // namespace rose
