#include "chat/harmony_render.h"

#include <gtest/gtest.h>

#include <fstream>

#include "chat/byte_tokenizer.h"
#include "chat/harmony_json.h"

namespace rose {
namespace {

HarmonyRenderOptions OptionsOf(const JsonValue& record) {
  using Options = HarmonyRenderOptions;
  Options options;
  const std::string& purpose = *record.Find("for")->string();
  options.purpose = purpose == "completion" ? Options::Purpose::kCompletion
                    : purpose == "training" ? Options::Purpose::kTraining
                                            : Options::Purpose::kConversation;
  if (const auto* role = record.Find("next_role")->string()) options.next_role = *role;
  options.drop = *record.Find("auto_drop_analysis")->boolean() ? Options::Drop::kBeforeFirstFinal
                                                               : Options::Drop::kNothing;
  return options;
}

Result<std::vector<int32_t>> RenderRecord(const JsonValue& record, const Tokenizer& tokenizer) {
  const auto ids = FindHarmonyIds(tokenizer);
  auto messages = HarmonyMessagesFromJson(*record.Find("messages"));
  if (!messages.ok()) return messages.status();
  return RenderHarmony(*messages, OptionsOf(record), *ids, tokenizer);
}

// All cases of the reference, as text: what the tokens say, markers by name.
TEST(HarmonyRender, TextOfTheReference) {
  std::ifstream file(ROSE_SOURCE_DIR "/tests/data/harmony/render.jsonl");
  const ByteTokenizer tokenizer;
  int cases = 0;
  for (std::string line; std::getline(file, line); ++cases) {
    const auto record = ParseJson(line);
    ASSERT_TRUE(record.ok()) << record.status().message();
    const std::string& name = *record->Find("name")->string();
    const auto tokens = RenderRecord(*record, tokenizer);
    const std::string* text = record->Find("text")->string();
    ASSERT_EQ(tokens.ok(), text != nullptr) << name << tokens.status().message();
    if (!text) continue;
    std::string rendered;
    for (const int32_t id : *tokens) rendered += tokenizer.Bytes(id);
    EXPECT_EQ(rendered, *text) << name;
  }
  EXPECT_EQ(cases, 288);
}

}  // namespace
}  // namespace rose
