// Any token stream as a Harmony answer: events that nest, valid UTF-8, and the same answer streamed
// or not. A byte below 9 is a marker, 14 an id that no tokenizer knows, any other byte itself.
#include <string>

#include "api/chat_completions.h"
#include "base/json.h"
#include "base/utf8.h"
#include "chat/byte_tokenizer.h"
#include "chat/harmony.h"

namespace rose {
namespace {

std::vector<int32_t> TokensOf(const uint8_t* data, size_t size) {
  constexpr int32_t kMarkers[] = {199998, 199999, 200002, 200003, 200005,
                                  200006, 200007, 200008, 200012};
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < size; ++i)
    tokens.push_back(data[i] < 9 ? kMarkers[data[i]] : data[i] == 14 ? 201088 : data[i]);
  return tokens;
}

void CheckEvents(const ChatFormat& format, const std::vector<int32_t>& tokens) {
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
std::string ContentOf(const ChatCall& call, const ApiContext& context,
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

}  // namespace
}  // namespace rose

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rose;
  const ByteTokenizer tokenizer;
  const auto format = CreateHarmony(tokenizer).value();
  const std::vector<int32_t> tokens = TokensOf(data, size);
  CheckEvents(*format, tokens);

  ApiContext context;
  context.models = {"m"};
  context.format = format.get();
  context.tokenizer = &tokenizer;
  ChatCall call;
  call.calls_allowed = size % 2 == 0;
  call.stop = {"ab", "b\n"};
  call.request.stop_ids = format->stop_ids();
  call.request.sampling.logprobs = 0;
  const std::string whole = ContentOf(call, context, tokens);
  call.stream = true;
  ROSE_CHECK(ContentOf(call, context, tokens) == whole);
  return 0;
}
