// The reference's ids, from the built-in vocabulary and from the published tokenizer.json.
#include "tokenizer/harmony.h"

namespace rose {
namespace {

void ExpectCases(const Tokenizer& tokenizer, const std::string& name, size_t count) {
  const std::vector<JsonValue> cases = ReadLines(name);
  EXPECT_EQ(cases.size(), count);
  for (const JsonValue& line : cases) {
    const std::string& text = *line.Find("text")->string();
    const std::vector<int32_t> ids = Ids(*line.Find("ids"));
    EXPECT_EQ(tokenizer.Encode(text), ids) << WriteJson(line);
    EXPECT_EQ(tokenizer.Decode(ids), text);
  }
}

TEST(Golden, BuiltInVocabulary) {
  ExpectCases(Harmony(), "tokenizer.jsonl", 933);
}

TEST(Golden, VectorsOfTheSpecification) {
  ExpectCases(Harmony(), "vectors.jsonl", 72);
}

TEST(Golden, PublishedTokenizerJson) {
  const auto tokenizer = LoadTokenizer(ROSE_TOKENIZER_JSON);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  ExpectCases(**tokenizer, "tokenizer.jsonl", 933);
  ExpectCases(**tokenizer, "vectors.jsonl", 72);

  EXPECT_EQ((*tokenizer)->vocab(), 200019);
  for (int32_t id = 0; id < 200018; ++id) {
    ASSERT_EQ((*tokenizer)->Bytes(id), Harmony().Bytes(id)) << id;
    ASSERT_EQ((*tokenizer)->IsSpecial(id), Harmony().IsSpecial(id)) << id;
  }
  EXPECT_EQ((*tokenizer)->Bytes(200018), "<|endofprompt|>");
  const std::string marked = "a<|end|><|start|>b<|reserved_200004|>";
  EXPECT_EQ((*tokenizer)->EncodeWithSpecials(marked), Harmony().EncodeWithSpecials(marked));
}

TEST(Case060, LongRunsAreExact) {
  for (const JsonValue& line : ReadLines("runs.jsonl")) {
    std::string text;
    for (int64_t i = 0; i < *line.Find("times")->AsInteger(); ++i) {
      text += *line.Find("unit")->string();
    }
    std::vector<int32_t> expected;
    for (const JsonValue& run : *line.Find("ids")->array()) {
      // How often, then the ids that repeat.
      const std::vector<int32_t> numbers = Ids(run);
      for (int32_t i = 0; i < numbers[0]; ++i) {
        expected.insert(expected.end(), numbers.begin() + 1, numbers.end());
      }
    }
    EXPECT_TRUE(Harmony().Encode(text) == expected) << WriteJson(line);
  }
}

TEST(Case060, MillionsThatTheReferenceCannotTake) {
  for (const std::string unit : {" ", "\u00a0", "\u2028", " \n", "\r", "\t "}) {
    std::string text;
    for (int i = 0; i < 1000 * 1000; ++i) text += unit;
    EXPECT_TRUE(Harmony().Decode(Harmony().Encode(text)) == text) << unit;
  }
}

}  // namespace
}  // namespace rose
