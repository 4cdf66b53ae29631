#include "tokenizer/qwen2_split.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "tokenizer/split_rule.h"

namespace rose {
namespace {

using Pieces = std::vector<std::string>;

Pieces Split(std::string_view text) {
  Pieces pieces;
  for (int64_t pos = 0; pos < static_cast<int64_t>(text.size());) {
    const int64_t end = Qwen2PieceEnd(text, pos);
    pieces.emplace_back(text.substr(pos, end - pos));
    pos = end;
  }
  return pieces;
}

TEST(Qwen2Split, WordsTakeOneCharacterBefore) {
  EXPECT_EQ(Split("the cat"), (Pieces{"the", " cat"}));
  EXPECT_EQ(Split("(a\tb_c"), (Pieces{"(a", "\tb", "_c"}));
  EXPECT_EQ(Split("((a"), (Pieces{"((", "a"}));
  EXPECT_EQ(Split("camelCaseHTTPServer2"), (Pieces{"camelCaseHTTPServer", "2"}));
  EXPECT_EQ(Split("a word of twenty letters: abcdefghijklmnopqrstuvwxyz."),
            (Pieces{"a", " word", " of", " twenty", " letters", ":", " abcdefghijklmnopqrstuvwxyz",
                    "."}));
}

TEST(Qwen2Split, ContractionsArePieces) {
  EXPECT_EQ(Split("it's we'LL don't o'clock"),
            (Pieces{"it", "'s", " we", "'LL", " don", "'t", " o", "'clock"}));
  EXPECT_EQ(Split("'sfoo 're"), (Pieces{"'s", "foo", " '", "re"}));
  EXPECT_EQ(Split("''s"), (Pieces{"''", "s"}));
}

TEST(Qwen2Split, DigitsAreSingle) {
  EXPECT_EQ(Split("x 123\u0663"), (Pieces{"x", " ", "1", "2", "3", "\u0663"}));
}

TEST(Qwen2Split, MarksAreSymbols) {
  EXPECT_EQ(Split("q\u0323x"), (Pieces{"q", "\u0323x"}));
  EXPECT_EQ(Split("q\u0323\u0307 x"), (Pieces{"q", "\u0323\u0307", " x"}));
  EXPECT_EQ(Split(" \u0323!\n\n"), (Pieces{" \u0323!\n\n"}));
}

TEST(Qwen2Split, SpacesAndLineEnds) {
  EXPECT_EQ(Split("a  b"), (Pieces{"a", " ", " b"}));
  EXPECT_EQ(Split("a \n \n b"), (Pieces{"a", " \n \n", " b"}));
  EXPECT_EQ(Split("!\r\n/x"), (Pieces{"!\r\n", "/x"}));
  EXPECT_EQ(Split("a   "), (Pieces{"a", "   "}));
}

TEST(Qwen2Split, CutsAreWherePiecesEnd) {
  std::mt19937 random(5);
  const std::vector<std::string> parts = {"a", "B", "\u00e9", "'",      "s",    " ",  "\n",
                                          "1", "!", "\u0301", "\u4eca", "\xff", "re", "\u3000"};
  for (int i = 0; i < 5000; ++i) {
    std::string text;
    for (int n = 0; n < 20; ++n) text += parts[random() % parts.size()];
    const int64_t cut = SplitCutAfter(text, static_cast<int64_t>(random() % text.size()));
    Pieces both = Split(text.substr(0, cut));
    for (std::string& piece : Split(text.substr(cut))) both.push_back(std::move(piece));
    EXPECT_EQ(both, Split(text)) << text << " cut at " << cut;
  }
}

}  // namespace
}  // namespace rose
