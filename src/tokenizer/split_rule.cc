#include "tokenizer/split_rule.h"

#include <array>

#include "base/utf8.h"
#include "tokenizer/o200k_split.h"
#include "tokenizer/qwen2_split.h"
#include "tokenizer/unicode_tables.h"

namespace rose {

// Functions, since the patterns are no constants of this file.
std::span<const SplitRule> SplitRules() {
  static const std::array<SplitRule, 2> rules = {{
      {"o200k", kO200kPattern, O200kPieceEnd},
      {"qwen2", kQwen2Pattern, Qwen2PieceEnd},
  }};
  return rules;
}

const SplitRule& O200kRule() {
  return SplitRules()[0];
}

// A cut lies between a letter and a valid character that is no letter, no mark and no apostrophe.
//
// Proof. Of o200k: after a letter, a piece goes on with letters, marks or a contraction only
// (alternatives 1 and 2), and the other alternatives take no letter. Of Qwen2: a letter is followed
// by letters alone (1 and 2). So a piece that has the letter ends at the cut, whatever comes before
// it. Without what follows the cut, every piece before it is still the
// same: runs that end there end there for want of text instead. Alternative 6 of both looks beyond
// a run of white space, but before the cut there is a letter, so every run it looks at is followed
// by the same character. What follows the cut is split alike because a piece depends on nothing
// before it.
int64_t SplitCutAfter(std::string_view text, int64_t from) {
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

}  // namespace rose
