// Any token stream as a Qwen3 answer. A byte below 9 is a marker, 14 an id that no tokenizer knows,
// any other byte itself; 15 to 24 are pieces of calls, so that these are met.
#include <array>

#include "chat/byte_tokenizer.h"
#include "chat/qwen3.h"
#include "check_answer.h"

namespace rose {
namespace {

constexpr int32_t kFirst = 300;
constexpr std::array<std::string_view, 9> kMarkers = {
    "<|im_start|>", "<|im_end|>",   "<|endoftext|>",   "<think>",         "</think>",
    "<tool_call>",  "</tool_call>", "<tool_response>", "</tool_response>"};
constexpr std::array<std::string_view, 10> kPieces = {
    "{\"name\": \"f\", ", "\"arguments\": ", "{\"a\": ", "\"\\u00e9\"", "}", "}\n",
    "{\"name\": ",        "assistant\n",     "user\n",   "\n\n"};

// Bytes, and the markers of this format.
class QwenBytes : public ByteTokenizer {
 public:
  std::string_view Bytes(int32_t id) const override {
    return IsSpecial(id) ? kMarkers[id - kFirst] : ByteTokenizer::Bytes(id < 256 ? id : -1);
  }
  bool IsSpecial(int32_t id) const override {
    return id >= kFirst && id < kFirst + std::ssize(kMarkers);
  }
  std::optional<int32_t> SpecialId(std::string_view name) const override {
    for (int32_t id = kFirst; IsSpecial(id); ++id)
      if (Bytes(id) == name) return id;
    return std::nullopt;
  }
};

std::vector<int32_t> TokensOf(const uint8_t* data, size_t size) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < size; ++i) {
    if (data[i] < 9) {
      tokens.push_back(kFirst + data[i]);
    } else if (data[i] >= 15 && data[i] < 25) {
      for (const char c : kPieces[data[i] - 15]) tokens.push_back(static_cast<uint8_t>(c));
    } else {
      tokens.push_back(data[i] == 14 ? 201088 : data[i]);
    }
  }
  return tokens;
}

}  // namespace
}  // namespace rose

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rose;
  const QwenBytes tokenizer;
  const auto format = CreateQwen3(tokenizer).value();
  CheckAnswer(*format, tokenizer, TokensOf(data, size), /*may_call=*/size % 2 == 0);
  return 0;
}
