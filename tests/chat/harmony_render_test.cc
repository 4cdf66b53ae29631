#include "chat/harmony_render.h"

#include <gtest/gtest.h>

#include <fstream>

#include "chat/byte_tokenizer.h"
#include "chat/harmony_json.h"
#include "chat/harmony_number.h"
#include "chat/harmony_schema.h"

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

// Token by token; what the reference refuses is refused.
TEST(HarmonyRender, EqualsTheReferenceInTokens) {
  auto tokenizer = BuiltInTokenizer("o200k_harmony");
  ASSERT_TRUE(tokenizer.ok());
  std::ifstream file(ROSE_SOURCE_DIR "/tests/data/harmony/render.jsonl");
  int cases = 0;
  for (std::string line; std::getline(file, line); ++cases) {
    const auto record = ParseJson(line);
    ASSERT_TRUE(record.ok()) << record.status().message();
    const std::string& name = *record->Find("name")->string();
    const auto tokens = RenderRecord(*record, **tokenizer);
    const auto* expected = record->Find("tokens")->array();
    ASSERT_EQ(tokens.ok(), expected != nullptr) << name << tokens.status().message();
    if (!expected) continue;
    std::vector<int32_t> ids;
    for (const JsonValue& id : *expected) ids.push_back(static_cast<int32_t>(*id.AsInteger()));
    EXPECT_EQ(*tokens, ids) << name;
  }
  EXPECT_EQ(cases, 288);
}

// The texts are what openai-harmony 0.0.8 prints as a default.
TEST(HarmonyRender, ReadsNumbersAsTheReferenceDoes) {
  const std::pair<const char*, const char*> cases[] = {
      {"0", "0"},
      {"-0", "-0.0"},
      {"18446744073709551615", "18446744073709551615"},
      {"18446744073709551616", "1.8446744073709552e19"},
      {"-9223372036854775808", "-9223372036854775808"},
      {"-9223372036854775809", "-9.223372036854776e18"},
      {"0.1", "0.1"},
      {"1.50", "1.5"},
      {"1e-400", "0.0"},
      {"0e99999999999", "0.0"},
      {"1e-99999999999", "0.0"},
      // Not the nearest double.
      {"6.8723e288", "6.8723e288"},
      {"6.87230e288", "6.872299999999999e288"},
      {"9007199254740993.0", "9007199254740994.0"},
      {"1.56635894882251e-288", "1.5663589488225099e-288"}};
  for (const auto& [in, out] : cases) EXPECT_EQ(ReferenceNumber(in), out) << in;
  for (const char* in : {"1e309", "1e99999999999", "179769313486231570814527423731704356799e300"})
    EXPECT_EQ(ReferenceNumber(in), std::nullopt) << in;
}

// Wherever it stands, and even if it is left out as an old thought.
TEST(HarmonyRender, AnyDeveloperContentDeclaresFunctions) {
  const auto record = ParseJson(
      R"({"messages":[{"role":"system","content":[{"type":"system_content","channel_config":)"
      R"({"valid_channels":["final"],"channel_required":false}}]},{"role":"assistant","channel":)"
      R"("analysis","content":[{"type":"developer_content","tools":{"functions":{"name":"functions",)"
      R"("tools":[{"name":"f","description":""}]}}}]},{"role":"assistant","channel":"final",)"
      R"("content":"x"}],"for":"conversation","next_role":null,"auto_drop_analysis":true})");
  const auto tokens = RenderRecord(*record, ByteTokenizer());
  ASSERT_TRUE(tokens.ok()) << tokens.status().message();
  EXPECT_NE(ByteTokenizer().Decode(*tokens).find("Calls to these tools"), std::string::npos);
}

TEST(HarmonyRender, ATypeListMayHoldEmptyNames) {
  const auto type = [](const char* schema) { return *SchemaToType(*ParseJson(schema)); };
  EXPECT_EQ(type(R"({"type":[""]})"), "");
  EXPECT_EQ(type(R"({"type":["","integer"]})"), " | number");
  EXPECT_EQ(type(R"({"type":[1]})"), "any");
}

TEST(HarmonyRender, RefusesANumberThatNoDoubleHolds) {
  const auto schema = ParseJson(R"({"type":"object","properties":{"a":{"default":1e400}}})");
  EXPECT_FALSE(SchemaToType(*schema).ok());
}

TEST(HarmonyRender, NeedsEveryMarker) {
  class NoCall : public ByteTokenizer {
    std::optional<int32_t> SpecialId(std::string_view name) const override {
      return name == "<|call|>" ? std::nullopt : ByteTokenizer::SpecialId(name);
    }
  };
  const auto ids = FindHarmonyIds(NoCall());
  ASSERT_FALSE(ids.ok());
  EXPECT_NE(ids.status().message().find("<|call|>"), std::string::npos);
}

}  // namespace
}  // namespace rose
