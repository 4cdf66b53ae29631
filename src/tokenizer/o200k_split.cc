// The pattern's alternatives, first match wins, quantifiers greedy with backtracking:
//
//   1  [^\r\n\p{L}\p{N}]? A* C+ contraction?      A = Lu Lt Lm Lo M   C = Ll Lm Lo M
//   2  [^\r\n\p{L}\p{N}]? A+ C* contraction?
//   3  \p{N}{1,3}
//   4  " "? [^\s\p{L}\p{N}]+ [\r\n/]*
//   5  \s* [\r\n]+
//   6  \s+ (?!\S)
//   7  \s+
//
// Backtracking is resolved by hand: where a greedy run must give characters back, the place to
// which it falls back is known from one pass over the run.
#include "tokenizer/o200k_split.h"

#include <emmintrin.h>

#include <bit>

#include "base/check.h"
#include "tokenizer/split_text.h"

namespace rose {

const std::string_view kO200kPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

namespace {

// A letter run that starts somewhere: where alternatives 1 and 2 end in it, -1 = no match.
struct Word {
  int64_t lower_end = -1;
  int64_t upper_end = -1;  // right where alternative 1 does not match
};

class Scanner : public SplitText {
 public:
  using SplitText::SplitText;

  int64_t PieceEnd(int64_t pos) const {
    if (const int64_t end = PlainWordEnd(pos); end > 0) return end;
    const SplitChar first = At(pos);
    switch (first.cls) {
      case CharClass::kUpper:
      case CharClass::kLower:
      case CharClass::kBoth: {
        const Word word = WordAt(pos, first);
        return AfterContraction(word.lower_end >= 0 ? word.lower_end : word.upper_end);
      }
      case CharClass::kNumber:
        return AfterNumber(pos, first);
      case CharClass::kNewline:
        return AfterSpaces(pos);
      case CharClass::kOther:
      case CharClass::kMark:
      case CharClass::kSpace:
        break;
    }

    // The first character may stand before a word.
    const int64_t after = pos + first.length;
    const SplitChar second = At(after);
    const Word word = WordAt(after, second);
    if (word.lower_end >= 0) return AfterContraction(word.lower_end);
    // Alternative 1 without a character before the word comes before alternative 2 with one.
    if (first.cls == CharClass::kMark) return AfterContraction(WordAt(pos, first).lower_end);
    if (word.upper_end >= 0) return AfterContraction(word.upper_end);

    if (first.cls == CharClass::kOther) return AfterSymbols(after, second, /*takes_slash=*/true);
    const bool is_symbol = second.IsOneOf(CharClass::kOther, CharClass::kMark);
    if (text_[pos] == ' ' && is_symbol) return AfterSymbols(after, second, /*takes_slash=*/true);
    return AfterSpaces(pos);
  }

 private:
  // Most pieces of most texts: alternative 1 as [^\r\nA-Za-z0-9]?[A-Z]?[a-z]{1,15} in ASCII, with
  // an ASCII character after it that neither goes on nor may begin a contraction. 0 if it is
  // another.
  int64_t PlainWordEnd(int64_t pos) const {
    if (pos + 18 > size_) return 0;
    const auto first = static_cast<uint8_t>(text_[pos]);
    if (first >= 0x80) return 0;
    const CharClass cls = kAsciiClass[first];
    if (cls == CharClass::kNumber || cls == CharClass::kNewline) return 0;
    int64_t start = pos + (cls == CharClass::kOther || cls == CharClass::kSpace);
    start += text_[start] >= 'A' && text_[start] <= 'Z';
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(&text_[start]));
    const __m128i lower = _mm_and_si128(_mm_cmpgt_epi8(bytes, _mm_set1_epi8('a' - 1)),
                                        _mm_cmplt_epi8(bytes, _mm_set1_epi8('z' + 1)));
    const int length = std::countr_one(static_cast<uint32_t>(_mm_movemask_epi8(lower)));
    if (length == 0 || length == 16) return 0;
    const auto next = static_cast<uint8_t>(text_[start + length]);
    return next < 0x80 && next != '\'' ? start + length : 0;
  }

  // `next` is the character at `start`, here and below.
  Word WordAt(int64_t start, SplitChar next) const {
    Word word;
    int64_t pos = start;
    while (next.IsOneOf(CharClass::kUpper, CharClass::kBoth, CharClass::kMark)) {
      pos += next.length;
      // A* gives characters back until C+ has one: the last one that is in both.
      if (next.cls != CharClass::kUpper) word.lower_end = pos;
      next = At(pos);
    }
    if (next.cls == CharClass::kLower) return {.lower_end = AfterLower(pos, next)};
    if (pos > start) word.upper_end = pos;
    return word;
  }

  int64_t AfterLower(int64_t pos, SplitChar next) const {
    while (next.IsOneOf(CharClass::kLower, CharClass::kBoth, CharClass::kMark)) {
      pos += next.length;
      next = At(pos);
    }
    return pos;
  }

  int64_t AfterNumber(int64_t pos, SplitChar next) const {
    for (int digits = 0; digits < 3 && next.cls == CharClass::kNumber; ++digits) {
      pos += next.length;
      next = At(pos);
    }
    return pos;
  }
};

}  // namespace

int64_t O200kPieceEnd(std::string_view text, int64_t pos) {
  const int64_t end = Scanner(text).PieceEnd(pos);
  ROSE_CHECK_GT(end, pos);
  return end;
}

}  // namespace rose
