// A tokenizer of Qwen's kind: ids of the reference, and which of its added tokens are for people.
#include "tokenizer/qwen.h"

#include "base/utf8.h"
#include "tokenizer/harmony.h"
#include "tokenizer/unicode_nfc.h"

namespace rose {
namespace {

std::string Nfc(std::string_view text) {
  std::string buffer;
  return std::string(ToNfc(text, buffer));
}

TEST(Qwen, IdsAreThoseOfTheReference) {
  const std::vector<JsonValue> cases = ReadLines("../qwen/tokenizer.jsonl");
  EXPECT_EQ(cases.size(), 719u);
  for (const JsonValue& line : cases) {
    const std::string& text = *line.Find("text")->string();
    const std::vector<int32_t> ids = Ids(*line.Find("ids"));
    EXPECT_EQ(QwenToy().Encode(text), ids) << WriteJson(line);
    EXPECT_EQ(QwenToy().Decode(ids), Nfc(text));
  }
}

TEST(Qwen, AddedTokensAreFoundBeforeNfc) {
  for (const JsonValue& line : ReadLines("../qwen/marked.jsonl")) {
    const std::string& text = *line.Find("text")->string();
    EXPECT_EQ(QwenToy().EncodeWithSpecials(text), Ids(*line.Find("ids"))) << text;
    for (const int32_t id : QwenToy().Encode(text)) EXPECT_FALSE(QwenToy().IsSpecial(id)) << text;
  }
}

TEST(Qwen, SomeAddedTokensAreThereToBeRead) {
  const auto id = [](std::string_view name) { return QwenToy().SpecialId(name).value(); };
  for (const char* name : {"<think>", "</think>", "<tool_call>", "<|fim_prefix|>"}) {
    EXPECT_TRUE(QwenToy().IsSpecial(id(name))) << name;
    EXPECT_FALSE(QwenToy().IsControl(id(name))) << name;
  }
  EXPECT_TRUE(QwenToy().IsControl(id("<|im_end|>")));
  EXPECT_FALSE(QwenToy().IsControl(5));
}

TEST(Qwen, LongTextsInPartsAreTheSame) {
  std::string text;
  for (int i = 0; text.size() < 700'000; ++i)
    text += "It's " + std::to_string(i) + " caf\u00e9s, \u4eca\u5929\n\n  done'll";
  std::vector<int32_t> whole;
  // Lines are whole pieces, and none of them is long.
  for (size_t from = 0; from < text.size();) {
    const size_t to = std::min(text.find("  done", from), text.size());
    const auto part = QwenToy().Encode(text.substr(from, to - from));
    whole.insert(whole.end(), part.begin(), part.end());
    from = to;
    if (from < text.size()) {
      const auto rest = QwenToy().Encode("  done'll");
      whole.insert(whole.end(), rest.begin(), rest.end());
      from += 9;
    }
  }
  EXPECT_TRUE(QwenToy().Encode(text) == whole);
}

TEST(Nfc, ComposesDecomposesAndOrders) {
  EXPECT_EQ(Nfc("e\u0301"), "\u00e9");
  EXPECT_EQ(Nfc("\u212b\u2126"), "\u00c5\u03a9");
  EXPECT_EQ(Nfc("q\u0307\u0323"), "q\u0323\u0307");
  EXPECT_EQ(Nfc("a\u0315\u0300\u05ae\u0300b"), "\u00e0\u05ae\u0300\u0315b");
  EXPECT_EQ(Nfc("\u1112\u1161\u11ab"), "\ud55c");
  EXPECT_EQ(Nfc("\ud558\u11ab"), "\ud55c");
  EXPECT_EQ(Nfc("\ud55c\u11ab"), "\ud55c\u11ab");
  EXPECT_EQ(Nfc("\u0958"), "\u0915\u093c");         // never composed
  EXPECT_EQ(Nfc("a\u0327\u0301"), "\u00e1\u0327");  // over a mark of a lower class
  EXPECT_EQ(Nfc("a\u0345\u0301"), "\u00e1\u0345");
  EXPECT_EQ(Nfc("a\u0301\u0301"), "\u00e1\u0301");  // not over one of its own class
  EXPECT_EQ(Nfc("e\u0310\u0301"), "e\u0310\u0301");
  EXPECT_EQ(Nfc("\u0301e\u0301"), "\u0301\u00e9");
  EXPECT_EQ(Nfc("\u0344"), "\u0308\u0301");
}

TEST(Nfc, TextThatIsInItIsNotCopied) {
  for (const std::string text : {"", "plain", "caf\u00e9 \u4eca\u5929 \ud55c\uae00",
                                 "\u0928\u092e\u0938\u094d\u0924\u0947", "q\u0323\u0307y"}) {
    std::string buffer;
    EXPECT_EQ(ToNfc(text, buffer).data(), text.data()) << text;
  }
}

TEST(Nfc, BytesThatAreNoTextPart) {
  EXPECT_EQ(Nfc("e\xcc\u0301"), "e\xcc\u0301");
  EXPECT_EQ(Nfc("\xff\u0301e\u0301\xe2\x80"), "\xff\u0301\u00e9\xe2\x80");
  EXPECT_EQ(Nfc("e\xcc"), "e\xcc");
}

TEST(Nfc, TwiceIsOnce) {
  uint32_t state = 1;
  const auto draw = [&](uint32_t below) {
    state = state * 1664525 + 1013904223;
    return (state >> 8) % below;
  };
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (uint32_t n = 1 + draw(6); n > 0; --n) {
      const uint32_t from[] = {0x20,   0xc0,   0x300,  0x590,  0x900,   0x1100,
                               0x1e00, 0x3040, 0xac00, 0xf900, 0x11300, 0x1d158};
      AppendUtf8(text, from[draw(12)] + draw(i % 2 ? 96 : 256));
    }
    const std::string once = Nfc(text);
    EXPECT_EQ(Nfc(once), once) << text;
  }
}

}  // namespace
}  // namespace rose
