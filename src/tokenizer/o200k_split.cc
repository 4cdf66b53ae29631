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

#include <array>
#include <bit>

#include "base/check.h"
#include "tokenizer/char_at.h"
#include "tokenizer/unicode_tables.h"

namespace rose {

const std::string_view kO200kPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

namespace {

constexpr std::array<CharClass, 128> kAsciiClass = [] {
  std::array<CharClass, 128> classes{};
  for (int c = 'A'; c <= 'Z'; ++c) classes[c] = CharClass::kUpper;
  for (int c = 'a'; c <= 'z'; ++c) classes[c] = CharClass::kLower;
  for (int c = '0'; c <= '9'; ++c) classes[c] = CharClass::kNumber;
  for (int c : {' ', '\t', '\v', '\f'}) classes[c] = CharClass::kSpace;
  for (int c : {'\r', '\n'}) classes[c] = CharClass::kNewline;
  return classes;
}();

// The class of what is after the last character.
constexpr auto kTextEnd = static_cast<CharClass>(8);

struct Char {
  CharClass cls;
  int length;  // in bytes; 0 at the end of the text

  template <typename... Classes>
  bool IsOneOf(Classes... classes) const {
    return (((1u << static_cast<int>(classes)) | ...) >> static_cast<int>(cls) & 1) != 0;
  }
};

// A letter run that starts somewhere: where alternatives 1 and 2 end in it, -1 = no match.
struct Word {
  int64_t lower_end = -1;
  int64_t upper_end = -1;  // right where alternative 1 does not match
};

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text), size_(static_cast<int64_t>(text.size())) {}

  int64_t PieceEnd(int64_t pos) const {
    if (const int64_t end = PlainWordEnd(pos); end > 0) return end;
    const Char first = At(pos);
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
    const Char second = At(after);
    const Word word = WordAt(after, second);
    if (word.lower_end >= 0) return AfterContraction(word.lower_end);
    // Alternative 1 without a character before the word comes before alternative 2 with one.
    if (first.cls == CharClass::kMark) return AfterContraction(WordAt(pos, first).lower_end);
    if (word.upper_end >= 0) return AfterContraction(word.upper_end);

    if (first.cls == CharClass::kOther) return AfterSymbols(after, second);
    const bool is_symbol = second.IsOneOf(CharClass::kOther, CharClass::kMark);
    if (text_[pos] == ' ' && is_symbol) return AfterSymbols(after, second);
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

  Char At(int64_t pos) const {
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

  // `next` is the character at `start`, here and below.
  Word WordAt(int64_t start, Char next) const {
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

  int64_t AfterLower(int64_t pos, Char next) const {
    while (next.IsOneOf(CharClass::kLower, CharClass::kBoth, CharClass::kMark)) {
      pos += next.length;
      next = At(pos);
    }
    return pos;
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

  int64_t AfterNumber(int64_t pos, Char next) const {
    for (int digits = 0; digits < 3 && next.cls == CharClass::kNumber; ++digits) {
      pos += next.length;
      next = At(pos);
    }
    return pos;
  }

  // The rest of alternative 4, its first symbol before `pos` or at it.
  int64_t AfterSymbols(int64_t pos, Char next) const {
    while (next.IsOneOf(CharClass::kOther, CharClass::kMark)) {
      pos += next.length;
      next = At(pos);
    }
    while (pos < size_ && (text_[pos] == '\r' || text_[pos] == '\n' || text_[pos] == '/')) ++pos;
    return pos;
  }

  // Alternatives 5 to 7 at white space.
  int64_t AfterSpaces(int64_t start) const {
    int64_t pos = start;
    int64_t after_newline = -1;
    int64_t last = start;  // where the last character starts
    for (Char next = At(pos); next.IsOneOf(CharClass::kSpace, CharClass::kNewline);
         next = At(pos)) {
      last = pos;
      pos += next.length;
      if (next.cls == CharClass::kNewline) after_newline = pos;
    }
    if (after_newline >= 0) return after_newline;
    // One character stays for the word that follows, if it is not the only one.
    return pos == size_ || last == start ? pos : last;
  }

  std::string_view text_;
  int64_t size_;
};

}  // namespace

// A cut lies between a letter and a valid character that is no letter, no mark and no apostrophe.
//
// Proof. After a letter, a piece goes on with letters, marks or a contraction only (alternatives 1
// and 2), and the other alternatives take no letter. So a piece that has the letter ends at the
// cut, whatever comes before it. Without what follows the cut, every piece before it is still the
// same: runs that end there end there for want of text instead. Alternative 6 looks beyond a run of
// white space, but before the cut there is a letter, so every run it looks at is followed by the
// same character. What follows the cut is split alike because a piece depends on nothing before it.
int64_t O200kCutAfter(std::string_view text, int64_t from) {
  const auto size = static_cast<int64_t>(text.size());
  bool after_letter = false;
  while (from > 0 && from < size && (text[from] & 0xC0) == 0x80) ++from;
  for (int64_t pos = from; pos < size;) {
    const Utf8Char next = DecodeUtf8(text, pos);
    const CharClass cls = ClassOf(next.code_point);
    const bool letter =
        cls == CharClass::kUpper || cls == CharClass::kLower || cls == CharClass::kBoth;
    const bool valid = next.state == Utf8Char::State::kValid;
    if (after_letter && valid && !letter && cls != CharClass::kMark && next.code_point != '\'') {
      return pos;
    }
    after_letter = letter;
    pos += next.length;
  }
  return size;
}

int64_t O200kPieceEnd(std::string_view text, int64_t pos) {
  const int64_t end = Scanner(text).PieceEnd(pos);
  ROSE_CHECK_GT(end, pos);
  return end;
}

}  // namespace rose
