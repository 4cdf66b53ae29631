// Any document as a tokenizer file: a tokenizer or a sentence. What loads must be lossless.
#include "base/check.h"
#include "tokenizer/bpe_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rose;
  const std::string_view content(reinterpret_cast<const char*>(data), size);
  const auto json = ParseTokenizerJson(content);
  if (json.ok()) {
    const Tokenizer& tokenizer = **json;
    ROSE_CHECK(tokenizer.Decode(tokenizer.Encode(content)) == content);
    ROSE_CHECK(tokenizer.Decode(tokenizer.EncodeWithSpecials(content)) == content);
  } else {
    ROSE_CHECK(!json.status().message().empty());
  }
  return 0;
}
