// Any body at any endpoint that generates or tokenizes (by its first byte). It is refused with a
// valid error, or answered: whatever tokens are sampled, every event and every body is valid JSON,
// and the answer ends.
#include <string>
#include <vector>

#include "api/chat_completions.h"
#include "api/completions.h"
#include "api/messages.h"
#include "api/responses_answer.h"
#include "api/tokenize.h"
#include "base/json.h"
#include "chat/byte_tokenizer.h"
#include "chat/harmony.h"

namespace rose {
namespace {

constexpr int64_t kNow = 1764400000;

void CheckError(const ApiError& error) {
  ROSE_CHECK(error.http_status >= 400 && error.http_status < 500, error.http_status);
  const auto json = ParseJson(ErrorBody(error));
  ROSE_CHECK(json.ok() && !json->Find("error")->Find("message")->string()->empty());
}

void CheckEvents(std::vector<StreamEvent>& events) {
  for (const StreamEvent& event : events) {
    ROSE_CHECK(event.data == "[DONE]" || ParseJson(event.data).ok(), event.data);
    ROSE_CHECK(event.data.find('\n') == std::string::npos);
  }
  events.clear();
}

// The next token that the model draws: markers and words of headers more often than chance has it.
int32_t Draw(uint64_t& random, const Request& request) {
  constexpr std::string_view kWords = "assistant commentary to=functions.f final analysis json {}";
  random = random * 6364136223846793005u + 1442695040888963407u;
  const auto pick = static_cast<uint32_t>(random >> 33);
  if (pick % 5 == 0) return static_cast<int32_t>(200000 + pick / 5 % 19);
  if (pick % 31 == 0 && !request.stop_ids.empty()) return request.stop_ids.front();
  return static_cast<uint8_t>(kWords[pick / 5 % kWords.size()]);
}

void RunAnswer(PreparedCall call, uint64_t random) {
  std::vector<StreamEvent> events;
  Answer& answer = *call.answer;
  if (call.stream) answer.Begin(events);
  for (size_t index = 0; index < call.requests.size() && index < 4; ++index) {
    const Request& request = call.requests[index];
    ROSE_CHECK(!request.prompt.empty() && request.max_tokens >= 1);
    for (int64_t token = 0; !answer.ended(static_cast<int64_t>(index)); ++token) {
      TokenEvent event;
      event.tokens.push_back({.id = Draw(random, request), .logprob = -1, .top = {{65, -1}}});
      for (const int32_t stop : request.stop_ids)
        if (stop == event.tokens.back().id)
          event.finish = FinishReason::kStop, event.stop_id = stop;
      if (token == 60 || token + 1 == request.max_tokens)
        if (event.finish == FinishReason::kNone) event.finish = FinishReason::kLength;
      answer.Push(static_cast<int64_t>(index), event, events);
      CheckEvents(events);
    }
  }
  if (!answer.done()) return;  // more choices than were played
  ROSE_CHECK(!answer.failed());
  if (call.stream) {
    answer.Finish(events);
    CheckEvents(events);
  } else {
    ROSE_CHECK(ParseJson(answer.Body()).ok(), answer.Body());
  }
}

}  // namespace
}  // namespace rose

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rose;
  if (size == 0) return 0;
  static const ByteTokenizer tokenizer;
  static const auto format = CreateHarmony(tokenizer).value();
  static const ApiContext context = [] {
    ApiContext out;
    out.models = {"m"};
    out.format = format.get();
    out.tokenizer = &tokenizer;
    out.max_context = 1 << 20;
    out.vocab = tokenizer.vocab();
    out.new_id = [] { return std::string("id"); };
    return out;
  }();
  constexpr decltype(&PrepareMessages) kPrepare[] = {&PrepareChatCompletion, &PrepareCompletion,
                                                     &PrepareResponse, &PrepareMessages};
  constexpr decltype(&Tokenize) kReply[] = {&Tokenize, &Detokenize, &RenderChatCompletion,
                                            &RenderCompletion};
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  uint64_t random = size;
  for (size_t i = 0; i < size; i += 7) random = random * 31 + data[i];
  if (data[0] % 8 >= 4) {
    const Reply reply = kReply[data[0] % 4](body, context, kNow);
    if (const auto* error = std::get_if<ApiError>(&reply)) {
      CheckError(*error);
    } else {
      ROSE_CHECK(ParseJson(std::get<std::string>(reply)).ok());
    }
    return 0;
  }
  Prepared prepared = kPrepare[data[0] % 4](body, context, kNow);
  if (const auto* error = std::get_if<ApiError>(&prepared)) {
    CheckError(*error);
  } else {
    RunAnswer(std::move(std::get<PreparedCall>(prepared)), random);
  }
  return 0;
}
