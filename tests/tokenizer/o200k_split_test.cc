#include "tokenizer/o200k_split.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tokenizer/split_rule.h"
#include "tokenizer/unicode_tables.h"

namespace rose {
namespace {

using Pieces = std::vector<std::string>;

Pieces Split(std::string_view text) {
  Pieces pieces;
  for (int64_t pos = 0; pos < static_cast<int64_t>(text.size());) {
    const int64_t end = O200kPieceEnd(text, pos);
    pieces.emplace_back(text.substr(pos, end - pos));
    pos = end;
  }
  return pieces;
}

TEST(O200kSplit, WordsTakeOneCharacterBefore) {
  EXPECT_EQ(Split("the cat"), (Pieces{"the", " cat"}));
  EXPECT_EQ(Split("(a\tb_c"), (Pieces{"(a", "\tb", "_c"}));
  EXPECT_EQ(Split("  a"), (Pieces{" ", " a"}));
  EXPECT_EQ(Split("((a"), (Pieces{"((", "a"}));
  EXPECT_EQ(Split("\na\rb"), (Pieces{"\n", "a", "\r", "b"}));
  EXPECT_EQ(Split("1a"), (Pieces{"1", "a"}));
}

TEST(O200kSplit, CapitalsBeginWords) {
  EXPECT_EQ(Split("camelCaseHTTPServer"), (Pieces{"camel", "Case", "HTTPServer"}));
  EXPECT_EQ(Split("HTTP2"), (Pieces{"HTTP", "2"}));
  EXPECT_EQ(Split("\u01c5ungla"), (Pieces{"\u01c5ungla"}));  // title case is a capital
}

TEST(O200kSplit, ARunGivesBackUntilALowerLetterIsThere) {
  // CJK counts as both: capitals after it begin a new piece, unless a small letter follows.
  EXPECT_EQ(Split("\u597dABC"), (Pieces{"\u597d", "ABC"}));
  EXPECT_EQ(Split("A\u597dBC"), (Pieces{"A\u597d", "BC"}));
  EXPECT_EQ(Split("A\u597dBCd"), (Pieces{"A\u597dBCd"}));
  EXPECT_EQ(Split("!\u597dAB"), (Pieces{"!\u597d", "AB"}));
}

TEST(O200kSplit, MarksAreLettersAndMayStandBefore) {
  EXPECT_EQ(Split("\u0301a"), (Pieces{"\u0301a"}));
  EXPECT_EQ(Split("\u0301"), (Pieces{"\u0301"}));
  // A mark alone comes before a mark with capitals.
  EXPECT_EQ(Split("\u0301AB"), (Pieces{"\u0301", "AB"}));
  EXPECT_EQ(Split("\u0301ABc"), (Pieces{"\u0301ABc"}));
  EXPECT_EQ(Split("\u0301"
                  "1"),
            (Pieces{"\u0301", "1"}));
  EXPECT_EQ(Split("!!\u0301!"), (Pieces{"!!\u0301!"}));
}

TEST(O200kSplit, Contractions) {
  EXPECT_EQ(Split("it's I'LL we've"), (Pieces{"it's", " I'LL", " we've"}));
  EXPECT_EQ(Split("it'sn't"), (Pieces{"it's", "n't"}));
  EXPECT_EQ(Split("a'\u017fb"), (Pieces{"a'\u017f", "b"}));
  EXPECT_EQ(Split("a'x a'l a'r a'"), (Pieces{"a", "'x", " a", "'l", " a", "'r", " a", "'"}));
  EXPECT_EQ(Split("don\u2019t"), (Pieces{"don", "\u2019t"}));
  EXPECT_EQ(Split("1's"), (Pieces{"1", "'s"}));
}

TEST(O200kSplit, NumbersByThreeFromTheLeft) {
  EXPECT_EQ(Split("1234567"), (Pieces{"123", "456", "7"}));
  EXPECT_EQ(Split("12\u00b2\u2167\u2460"), (Pieces{"12\u00b2", "\u2167\u2460"}));
  EXPECT_EQ(Split(" 1"), (Pieces{" ", "1"}));
}

TEST(O200kSplit, SymbolsTakeASpaceAndLineEnds) {
  EXPECT_EQ(Split(" !?\r\n//\n x"), (Pieces{" !?\r\n//\n", " x"}));
  EXPECT_EQ(Split("//\n"), (Pieces{"//\n"}));
  EXPECT_EQ(Split("\t!"), (Pieces{"\t", "!"}));  // only U+0020
  EXPECT_EQ(Split("!\n !"), (Pieces{"!\n", " !"}));
}

TEST(O200kSplit, White) {
  EXPECT_EQ(Split("a   b"), (Pieces{"a", "  ", " b"}));
  EXPECT_EQ(Split("a   "), (Pieces{"a", "   "}));
  EXPECT_EQ(Split("a \n \n  b"), (Pieces{"a", " \n \n", " ", " b"}));
  EXPECT_EQ(Split(" \u00a0\u2028"
                  "1"),
            (Pieces{" \u00a0", "\u2028", "1"}));
  EXPECT_EQ(Split("\u0085"
                  "1"),
            (Pieces{"\u0085", "1"}));
  // Neither the byte order mark nor the zero width space is white.
  EXPECT_EQ(Split("  \ufeff"
                  "1"),
            (Pieces{" ", " \ufeff", "1"}));
  EXPECT_EQ(Split("  \u200b"
                  "1"),
            (Pieces{" ", " \u200b", "1"}));
}

TEST(O200kSplit, InvalidBytesAreSymbols) {
  EXPECT_EQ(Split("\xff"
                  "a"),
            (Pieces{"\xff"
                    "a"}));
  EXPECT_EQ(Split("a\xe2\x82"), (Pieces{"a", "\xe2\x82"}));
  EXPECT_EQ(Split("\xed\xa0\x80!"), (Pieces{"\xed\xa0\x80!"}));
}

// Every place that SplitCutAfter gives, in random texts of what may go wrong at a border.
TEST(O200kSplit, PartsAtACutAreSplitAlike) {
  const std::vector<std::string> bits = {"a",  "B",  "'s", "'",    "l",      "e",      " ",
                                         "\n", "\r", "\t", "1",    "!",      "/",      "\u0301",
                                         "r",  "S",  "ve", "\xe4", "\u4e2d", "\u2028", "\u017f"};
  std::mt19937 random(1);
  int64_t cuts = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (int i = 1 + random() % 14; i > 0; --i) text += bits[random() % bits.size()];
    const Pieces whole = Split(text);
    for (size_t from = 0; from <= text.size(); ++from) {
      const int64_t cut = SplitCutAfter(text, from);
      ASSERT_GE(cut, static_cast<int64_t>(from));
      Pieces parts = Split(std::string_view(text).substr(0, cut));
      for (std::string& piece : Split(std::string_view(text).substr(cut))) parts.push_back(piece);
      ASSERT_EQ(parts, whole) << text << " at " << cut;
      cuts += cut < static_cast<int64_t>(text.size());
    }
  }
  EXPECT_GT(cuts, 50000);
}

// The quick way for ASCII words against the pattern's own rules: the same text with a letter of
// another script far behind it, so that no word is plain, and each piece at the end of the text.
TEST(O200kSplit, PlainWordsEndWhereOthersDo) {
  const std::vector<std::string> bits = {"a",
                                         "bcd",
                                         "E",
                                         "'s",
                                         "'",
                                         " ",
                                         "\n",
                                         "1",
                                         "(",
                                         "\u00e9",
                                         "abcdefghijklmno",
                                         "abcdefghijklmnop"};
  std::mt19937 random(2);
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (int i = 1 + random() % 8; i > 0; --i) text += bits[random() % bits.size()];
    // After "!\n" a new piece begins, whatever follows.
    const std::string longer = text + "a!\n" + std::string(40, '1');
    Pieces pieces = Split(longer);
    Pieces expected = Split(text + "a!\n");
    pieces.resize(expected.size());
    ASSERT_EQ(pieces, expected) << text;
  }
}

TEST(UnicodeTables, Classes) {
  EXPECT_EQ(ClassOf(0x1c5), CharClass::kUpper);   // Lt
  EXPECT_EQ(ClassOf(0x2b0), CharClass::kBoth);    // Lm
  EXPECT_EQ(ClassOf(0x10fc), CharClass::kBoth);   // Lm between Ll
  EXPECT_EQ(ClassOf(0x16d63), CharClass::kBoth);  // since Unicode 16
  EXPECT_EQ(ClassOf(0x1c89), CharClass::kUpper);  // since Unicode 16
  EXPECT_EQ(ClassOf(0x378), CharClass::kOther);   // unassigned
  EXPECT_EQ(ClassOf(0xe0100), CharClass::kMark);
  EXPECT_EQ(ClassOf(0x1d7d8), CharClass::kNumber);
  EXPECT_EQ(ClassOf(0x180e), CharClass::kOther);
  EXPECT_EQ(ClassOf(0x3000), CharClass::kSpace);
  EXPECT_EQ(ClassOf('\n'), CharClass::kNewline);
  EXPECT_EQ(ClassOf(0x323af), CharClass::kBoth);  // the last ideograph
  EXPECT_EQ(ClassOf(0x10ffff), CharClass::kOther);
}

}  // namespace
}  // namespace rose
