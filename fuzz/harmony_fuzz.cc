// Any token stream as a Harmony answer: events that nest, valid UTF-8, and the same answer streamed
// or not. A byte below 9 is a marker, 14 an id that no tokenizer knows, any other byte itself.
#include "chat/byte_tokenizer.h"
#include "chat/harmony.h"
#include "check_answer.h"

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

}  // namespace
}  // namespace rose

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rose;
  const ByteTokenizer tokenizer;
  const auto format = CreateHarmony(tokenizer).value();
  const std::vector<int32_t> tokens = TokensOf(data, size);
  CheckAnswer(*format, tokenizer, tokens, /*may_call=*/size % 2 == 0);
  return 0;
}
