#include <random>

#include "base/utf8.h"
#include "tokenizer/harmony.h"

namespace rose {
namespace {

using Texts = std::vector<std::string>;

// What each push gives, then what Finish gives.
Texts Stream(const std::vector<std::string>& pushes) {
  Utf8Stream stream;
  Texts out;
  for (const std::string& bytes : pushes) out.push_back(stream.Push(bytes));
  out.push_back(stream.Finish());
  return out;
}

Texts StreamIds(const std::vector<int32_t>& ids) {
  std::vector<std::string> pushes;
  for (const int32_t id : ids) pushes.emplace_back(Harmony().Bytes(id));
  return Stream(pushes);
}

TEST(Case061, BadBytesBecomeOneReplacementAndTextGoesOn) {
  EXPECT_EQ(Stream({"\xff", "ok"}), (Texts{"\ufffd", "ok", ""}));
  EXPECT_EQ(StreamIds({9552, 132990}), (Texts{" ",
                                              "\ufffd"
                                              "Chicken",
                                              ""}));
}

TEST(Case061, NothingCrossesABorder) {
  Utf8Stream stream;
  EXPECT_EQ(stream.Push("a\xe2"), "a");
  EXPECT_EQ(stream.Finish(), "\ufffd");
  EXPECT_EQ(stream.Push("\x82\xac hi"), "\ufffd\ufffd hi");
  EXPECT_EQ(stream.Finish(), "");
}

TEST(Case061, ACharacterThatIsCutIsNotLost) {
  EXPECT_EQ(Stream({"\xf0\x9f\xa6"}), (Texts{"", "\ufffd"}));
}

TEST(Case062, CharactersOverSeveralTokens) {
  EXPECT_EQ(StreamIds({4103, 99, 247}), (Texts{"", "", "\U0001F999", ""}));
  EXPECT_EQ(StreamIds({28823, 102, 2524, 112927, 222}),
            (Texts{"", "\U0001F469", "\u200d", "", "\U0001F680", ""}));
}

TEST(Utf8Stream, MaximalSubparts) {
  // The examples of the Unicode Standard, tables 3-8 to 3-11.
  EXPECT_EQ(Stream({"\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41"})[0],
            "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\x41");
  EXPECT_EQ(Stream({"\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41"})[0],
            "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\x41");
  EXPECT_EQ(Stream({"\xf4\x91\x92\x93\xff\x41\x80\xbf\x42"})[0],
            "\ufffd\ufffd\ufffd\ufffd\ufffd\x41\ufffd\ufffd\x42");
  EXPECT_EQ(Stream({"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41"})[0], "\ufffd\ufffd\ufffd\ufffd\x41");
}

TEST(Utf8Stream, SameTextHoweverCut) {
  std::mt19937 random(1);
  // Bytes around every border of the encoding, so that near misses are frequent.
  const std::string alphabet =
      "aZ\x7f\x80\x8f\x90\x9f\xa0\xbf\xc1\xc2\xdf\xe0\xe1\xed\xef\xf0\xf4\xf5";
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (int i = 0; i < 20; ++i) bytes += alphabet[random() % alphabet.size()];
    const Texts whole = Stream({bytes});
    Utf8Stream stream;
    std::string text;
    for (const char byte : bytes) {
      const std::string more = stream.Push({&byte, 1});
      EXPECT_TRUE(IsValidUtf8(more));
      text += more;
    }
    text += stream.Finish();
    EXPECT_EQ(text, whole[0] + whole[1]);
  }
}

}  // namespace
}  // namespace rose
