// Any bytes: encoding is lossless and gives no special ids; the stream decoder gives valid UTF-8,
// the same however the tokens are cut.
#include "base/check.h"
#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rose;
  static const std::unique_ptr<Tokenizer> tokenizer = BuiltInTokenizer("o200k_harmony").value();
  const std::string_view text(reinterpret_cast<const char*>(data), size);

  const std::vector<int32_t> ids = tokenizer->Encode(text);
  ROSE_CHECK(tokenizer->Decode(ids) == text);
  Utf8Stream by_token;
  std::string streamed;
  for (const int32_t id : ids) {
    ROSE_CHECK(!tokenizer->IsSpecial(id), id);
    streamed += by_token.Push(tokenizer->Bytes(id));
    ROSE_CHECK(IsValidUtf8(streamed));
  }
  streamed += by_token.Finish();
  Utf8Stream at_once;
  std::string whole = at_once.Push(text);
  whole += at_once.Finish();
  ROSE_CHECK(streamed == whole);

  // A second name of an id decodes to the first.
  const bool aliased = text.find("<|endofprompt|>") != text.npos;
  ROSE_CHECK(aliased || tokenizer->Decode(tokenizer->EncodeWithSpecials(text)) == text);
  return 0;
}
