// UTF-8 by the Unicode standard: no surrogates, no overlong forms, nothing above U+10FFFF.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rose {

struct Utf8Char {
  enum class State {
    kValid,
    kInvalid,     // `length` bytes, a maximal subpart, stand for one U+FFFD (Unicode 16, 3.9)
    kIncomplete,  // the same, but the text ends here: with more bytes it may become valid
  };
  State state = State::kInvalid;
  uint32_t code_point = 0xfffd;  // U+FFFD unless valid
  int length = 1;                // in bytes, >= 1
};

// The character at `pos` < text.size().
Utf8Char DecodeUtf8(std::string_view text, int64_t pos);
bool IsValidUtf8(std::string_view text);
// Appends a code point; it must be no surrogate and at most 0x10FFFF.
void AppendUtf8(std::string& out, uint32_t code_point);

// For eyes: \xNN for every byte of a control character (C0, C1, DEL) and of what is no UTF-8, so
// that text from elsewhere does not steer the terminal. Bytes in `keep` stay, such as "\n".
std::string Printable(std::string_view text, std::string_view keep = "");

}  // namespace rose
