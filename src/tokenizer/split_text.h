// What the split rules share: the classes of characters, and the alternatives that their patterns
// have in common.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "tokenizer/char_at.h"
#include "tokenizer/unicode_tables.h"

namespace rose {

inline constexpr std::array<CharClass, 128> kAsciiClass = [] {
  std::array<CharClass, 128> classes{};
  for (int c = 'A'; c <= 'Z'; ++c) classes[c] = CharClass::kUpper;
  for (int c = 'a'; c <= 'z'; ++c) classes[c] = CharClass::kLower;
  for (int c = '0'; c <= '9'; ++c) classes[c] = CharClass::kNumber;
  for (int c : {' ', '\t', '\v', '\f'}) classes[c] = CharClass::kSpace;
  for (int c : {'\r', '\n'}) classes[c] = CharClass::kNewline;
  return classes;
}();

// The class of what is after the last character.
inline constexpr auto kTextEnd = static_cast<CharClass>(8);

struct SplitChar {
  CharClass cls;
  int length;  // in bytes; 0 at the end of the text

  template <typename... Classes>
  bool IsOneOf(Classes... classes) const {
    return (((1u << static_cast<int>(classes)) | ...) >> static_cast<int>(cls) & 1) != 0;
  }
};

class SplitText {
 public:
  explicit SplitText(std::string_view text)
      : text_(text), size_(static_cast<int64_t>(text.size())) {}

  SplitChar At(int64_t pos) const {
    if (pos + 4 <= size_) {
      const auto first = static_cast<uint8_t>(text_[pos]);
      if (first < 0x80) return {kAsciiClass[first], 1};
      const CharAtPlace next = CharOfFour(&text_[pos]);
      if (next.valid) return {ClassOf(next.code_point), next.length};
    }
    if (pos >= size_) return {kTextEnd, 0};
    const Utf8Char next = DecodeUtf8(text_, pos);
    return {ClassOf(next.code_point), next.length};
  }

  // 's 't 're 've 'm 'll 'd in any case; U+017F folds to s.
  int64_t AfterContraction(int64_t pos) const {
    if (pos + 1 >= size_ || text_[pos] != '\'') return pos;
    const auto lower = [&](int64_t at) { return at < size_ ? text_[at] | 0x20 : 0; };
    const char second = static_cast<char>(lower(pos + 2));
    switch (lower(pos + 1)) {
      case 's':
      case 't':
      case 'm':
      case 'd':
        return pos + 2;
      case 'r':
      case 'v':
        return second == 'e' ? pos + 3 : pos;
      case 'l':
        return second == 'l' ? pos + 3 : pos;
      default:
        return text_.substr(pos + 1, 2) == "\xC5\xBF" ? pos + 3 : pos;
    }
  }

  // [^\s\p{L}\p{N}]* and then [\r\n]*, or [\r\n/]* with `takes_slash`; `next` is the character
  // at `pos`.
  int64_t AfterSymbols(int64_t pos, SplitChar next, bool takes_slash) const {
    while (next.IsOneOf(CharClass::kOther, CharClass::kMark)) {
      pos += next.length;
      next = At(pos);
    }
    const auto goes_on = [&](char c) {
      return c == '\r' || c == '\n' || (c == '/' && takes_slash);
    };
    while (pos < size_ && goes_on(text_[pos])) ++pos;
    return pos;
  }

  // \s*[\r\n]+|\s+(?!\S)|\s+ at white space.
  int64_t AfterSpaces(int64_t start) const {
    int64_t pos = start;
    int64_t after_newline = -1;
    int64_t last = start;  // where the last character starts
    for (SplitChar next = At(pos); next.IsOneOf(CharClass::kSpace, CharClass::kNewline);
         next = At(pos)) {
      last = pos;
      pos += next.length;
      if (next.cls == CharClass::kNewline) after_newline = pos;
    }
    if (after_newline >= 0) return after_newline;
    // One character stays for the word that follows, if it is not the only one.
    return pos == size_ || last == start ? pos : last;
  }

 protected:
  std::string_view text_;
  int64_t size_;
};

}  // namespace rose
