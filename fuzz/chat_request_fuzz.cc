// Any body as a chat request: an error in valid JSON, or a prompt whose markers the renderer wrote.
#include "api/chat_completions.h"
#include "base/json.h"
#include "chat/byte_tokenizer.h"
#include "chat/harmony.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rose;
  const ByteTokenizer tokenizer;
  const auto format = CreateHarmony(tokenizer).value();
  ApiContext context;
  context.models = {"m"};
  context.format = format.get();
  context.tokenizer = &tokenizer;
  context.max_context = 1 << 20;
  context.vocab = tokenizer.vocab();
  const auto parsed =
      ParseChatRequest({reinterpret_cast<const char*>(data), size}, context, 1764400000);
  if (const auto* error = std::get_if<ApiError>(&parsed)) {
    const auto json = ParseJson(ErrorBody(*error));
    ROSE_CHECK(json.ok());
    ROSE_CHECK(!json->Find("error")->Find("message")->string()->empty());
    return 0;
  }
  const ChatCall& call = std::get<ChatCall>(parsed);
  // Every message opens and closes; the answer is open.
  int64_t open = 0;
  for (const int32_t id : call.request.prompt) {
    if (id == 200006) ++open;
    if (id == 200007 || id == 200012) --open;
    ROSE_CHECK(open == 0 || open == 1);
  }
  ROSE_CHECK_EQ(open, 1);
  ROSE_CHECK(call.request.max_tokens >= 1 && call.choices >= 1 && call.choices <= 128);
  return 0;
}
