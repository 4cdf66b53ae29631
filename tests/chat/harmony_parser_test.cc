#include "chat/harmony_parser.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/json.h"
#include "base/utf8.h"
#include "chat/parsed_messages.h"

namespace rose {
namespace {

using Start = HarmonyParser::Start;

std::vector<ChatEvent> Parse(const Tokenizer& tokenizer, std::span<const int32_t> tokens,
                             Start start) {
  HarmonyParser parser(*FindHarmonyIds(tokenizer), tokenizer, {}, start);
  std::vector<ChatEvent> events;
  for (const int32_t token : tokens) parser.Push(token, events);
  parser.Finish(events);
  return events;
}

std::string Optional(const JsonValue* value) {
  return value->string() ? *value->string() : "";
}

// Every case of the reference. Well-formed ones agree in messages; of the others nothing is asked
// here but valid UTF-8. Messages of other roles than the assistant's are compared too: they are
// hidden from the API, not lost.
TEST(HarmonyParser, AgreesWithTheReference) {
  auto tokenizer = BuiltInTokenizer("o200k_harmony");
  ASSERT_TRUE(tokenizer.ok());
  std::ifstream file(ROSE_SOURCE_DIR "/tests/data/harmony/parse.jsonl");
  int cases = 0, compared = 0;
  for (std::string line; std::getline(file, line); ++cases) {
    const auto record = ParseJson(line);
    ASSERT_TRUE(record.ok()) << record.status().message();
    const std::string& name = *record->Find("name")->string();
    std::vector<int32_t> tokens;
    for (const JsonValue& id : *record->Find("tokens")->array())
      tokens.push_back(static_cast<int32_t>(*id.AsInteger()));
    const bool own_start = !tokens.empty() && tokens[0] == 200006;
    const auto events =
        Parse(**tokenizer, tokens, own_start ? Start::kBetweenMessages : Start::kAssistantHeader);
    const Parsed parsed = Fold(events);
    for (const ParsedMessage& message : parsed.messages) EXPECT_TRUE(IsValidUtf8(message.text));
    if (*record->Find("malformed")->boolean()) continue;

    ++compared;
    const auto& expected = *record->Find("messages")->array();
    ASSERT_EQ(parsed.messages.size(), expected.size()) << name;
    for (size_t i = 0; i < expected.size(); ++i) {
      std::string content;
      for (const JsonValue& part : *expected[i].Find("content")->array())
        content += *part.Find("text")->string();
      EXPECT_EQ(parsed.messages[i].channel, Optional(expected[i].Find("channel"))) << name;
      EXPECT_EQ(parsed.messages[i].recipient, Optional(expected[i].Find("recipient"))) << name;
      EXPECT_EQ(parsed.messages[i].content_type, Optional(expected[i].Find("content_type")))
          << name;
      EXPECT_EQ(parsed.messages[i].text, content) << name;
    }
  }
  EXPECT_EQ(cases, 296);
  EXPECT_EQ(compared, 115);
}

}  // namespace
}  // namespace rose
