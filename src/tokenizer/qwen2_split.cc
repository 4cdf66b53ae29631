// The pattern's alternatives, first match wins:
//
//   1  contraction: 's 't 're 've 'm 'll 'd in any case
//   2  [^\r\n\p{L}\p{N}]? \p{L}+
//   3  \p{N}
//   4  " "? [^\s\p{L}\p{N}]+ [\r\n]*
//   5  \s* [\r\n]+
//   6  \s+ (?!\S)
//   7  \s+
//
// It differs from that of o200k in letters: capitals begin no word and marks are symbols; in
// numbers, which are single; and in contractions, which are pieces of their own.
#include "tokenizer/qwen2_split.h"

#include <emmintrin.h>

#include <bit>

#include "base/check.h"
#include "tokenizer/split_text.h"

namespace rose {

const std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

namespace {

bool IsLetter(SplitChar c) {
  return c.IsOneOf(CharClass::kUpper, CharClass::kLower, CharClass::kBoth);
}

class Scanner : public SplitText {
 public:
  using SplitText::SplitText;

  int64_t PieceEnd(int64_t pos) const {
    if (const int64_t end = PlainWordEnd(pos); end > 0) return end;
    if (text_[pos] == '\'')
      if (const int64_t end = AfterContraction(pos); end > pos) return end;
    const SplitChar first = At(pos);
    if (IsLetter(first)) return AfterLetters(pos, first);
    if (first.cls == CharClass::kNumber) return pos + first.length;
    if (first.cls == CharClass::kNewline) return AfterSpaces(pos);
    const int64_t after = pos + first.length;
    const SplitChar second = At(after);
    if (IsLetter(second)) return AfterLetters(after, second);
    if (first.cls != CharClass::kSpace) return AfterSymbols(after, second, /*takes_slash=*/false);
    const bool is_symbol = second.IsOneOf(CharClass::kOther, CharClass::kMark);
    if (text_[pos] == ' ' && is_symbol) return AfterSymbols(after, second, /*takes_slash=*/false);
    return AfterSpaces(pos);
  }

 private:
  // Most pieces of most texts: alternative 2 as [^\r\nA-Za-z0-9']?[A-Za-z]{1,15} in ASCII, with an
  // ASCII character after it. 0 if it is another.
  int64_t PlainWordEnd(int64_t pos) const {
    if (pos + 18 > size_) return 0;
    const auto first = static_cast<uint8_t>(text_[pos]);
    if (first >= 0x80 || first == '\'') return 0;
    const CharClass cls = kAsciiClass[first];
    if (cls == CharClass::kNumber || cls == CharClass::kNewline) return 0;
    const int64_t start = pos + (cls == CharClass::kOther || cls == CharClass::kSpace);
    const __m128i bytes = _mm_or_si128(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(&text_[start])), _mm_set1_epi8(0x20));
    const __m128i letters = _mm_and_si128(_mm_cmpgt_epi8(bytes, _mm_set1_epi8('a' - 1)),
                                          _mm_cmplt_epi8(bytes, _mm_set1_epi8('z' + 1)));
    const int length = std::countr_one(static_cast<uint32_t>(_mm_movemask_epi8(letters)));
    if (length == 0 || length == 16) return 0;
    return static_cast<uint8_t>(text_[start + length]) < 0x80 ? start + length : 0;
  }

  int64_t AfterLetters(int64_t pos, SplitChar next) const {
    while (IsLetter(next)) {
      pos += next.length;
      next = At(pos);
    }
    return pos;
  }
};

}  // namespace

int64_t Qwen2PieceEnd(std::string_view text, int64_t pos) {
  const int64_t end = Scanner(text).PieceEnd(pos);
  ROSE_CHECK_GT(end, pos);
  return end;
}

}  // namespace rose
