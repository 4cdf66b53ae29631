#include "tokenizer/char_at.h"

#include <gtest/gtest.h>

#include <string>

namespace rose {
namespace {

void ExpectAsDecoded(std::string_view text) {
  const CharAtPlace fast = CharAt(text, 0);
  const Utf8Char slow = DecodeUtf8(text, 0);
  ASSERT_EQ(fast.code_point, slow.code_point) << testing::PrintToString(text);
  ASSERT_EQ(fast.length, slow.length) << testing::PrintToString(text);
  ASSERT_EQ(fast.valid, slow.state == Utf8Char::State::kValid) << testing::PrintToString(text);
}

// Every first byte and second byte, with the borders of the others, and each text cut short before
// bytes that would complete it.
TEST(CharAt, EqualToDecodeUtf8) {
  const std::string borders = {'\x00', '\x7f', '\x80', '\x8f', '\x90', '\xbf', '\xc0', '\xff'};
  for (int two = 0; two < 1 << 16; ++two) {
    for (const char third : borders) {
      for (const char fourth : borders) {
        const char bytes[] = {static_cast<char>(two >> 8), static_cast<char>(two), third, fourth};
        for (size_t size = 1; size <= 4; ++size)
          ASSERT_NO_FATAL_FAILURE(ExpectAsDecoded({bytes, size}));
      }
    }
  }
}

}  // namespace
}  // namespace rose
