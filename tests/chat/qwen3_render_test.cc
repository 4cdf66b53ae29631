// Prompts of the Qwen3 format: those of the published template, and what no text can do.
#include <gtest/gtest.h>

#include <fstream>

#include "api/chat_fixture.h"
#include "chat/python_json.h"
#include "chat/qwen3.h"
#include "tokenizer/unicode_nfc.h"

namespace rose {
namespace {

// Conversations as bodies of chat completions, what jinja2 makes of the template, and what Hugging
// Face tokenizers make of that where no message spells a marker.
TEST(Qwen3Render, PromptsAreThoseOfTheTemplate) {
  ChatFixture chat(Qwen3Dialect());
  std::ifstream file(ROSE_SOURCE_DIR "/tests/data/qwen/render.jsonl");
  int cases = 0, with_ids = 0;
  for (std::string line; std::getline(file, line); ++cases) {
    const JsonValue json = ParseJson(line).value();
    const auto parsed = ParseChatRequest(*json.Find("body"), chat.context(), 0);
    if (const auto* error = std::get_if<ApiError>(&parsed)) FAIL() << ErrorBody(*error);
    const ChatCall& call = std::get<ChatCall>(parsed);
    std::string buffer;
    EXPECT_EQ(chat.Prompt(call), ToNfc(*json.Find("text")->string(), buffer)) << line;
    const auto* ids = json.Find("ids")->array();
    if (ids == nullptr) continue;
    ++with_ids;
    std::vector<int32_t> expected;
    for (const JsonValue& id : *ids) expected.push_back(static_cast<int32_t>(*id.AsInteger()));
    EXPECT_EQ(call.request.prompt, expected) << line;
  }
  EXPECT_EQ(cases, 100);
  EXPECT_GT(with_ids, 40);
}

std::string Prompt(const ChatRequest& request) {
  const Dialect& qwen = Qwen3Dialect();
  return qwen.tokenizer.Decode(qwen.Format()->Render(request).value());
}

TEST(Qwen3Render, ADeveloperSpeaksAsTheSystem) {
  ChatRequest request;
  request.messages = {{.role = Role::kDeveloper, .content = "a"},
                      {.role = Role::kDeveloper, .content = "b"},
                      {.content = "c"}};
  EXPECT_EQ(Prompt(request),
            "<|im_start|>system\na<|im_end|>\n<|im_start|>system\nb<|im_end|>\n"
            "<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n");
}

TEST(Qwen3Render, WithoutThoughtsTheirPlaceIsClosed) {
  ChatRequest request;
  request.messages = {{.content = "c"}};
  request.effort = ReasoningEffort::kNone;
  EXPECT_TRUE(Prompt(request).ends_with("<|im_start|>assistant\n<think>\n\n</think>\n\n"));
}

TEST(Qwen3Render, TheLastTextIsLeftOpen) {
  ChatRequest request;
  request.messages = {{.content = "c"},
                      {.role = Role::kAssistant, .content = "It is", .reasoning = "hm"}};
  request.continue_final = true;
  EXPECT_TRUE(Prompt(request).ends_with("<|im_start|>assistant\n<think>\nhm\n</think>\n\nIt is"));
  request.messages.back().role = Role::kUser;
  EXPECT_FALSE(Qwen3Dialect().Format()->Render(request).ok());
}

TEST(Qwen3Render, AnEmptyObjectStandsForNoArguments) {
  ChatRequest request;
  request.messages = {
      {.content = "c"},
      {.role = Role::kAssistant, .has_content = false, .tool_calls = {{"1", "f", ""}}}};
  EXPECT_NE(Prompt(request).find("{\"name\": \"f\", \"arguments\": {}}"), std::string::npos);
}

TEST(Qwen3Render, ATokenizerWithoutTheMarkersIsRefused) {
  const auto format = CreateQwen3(ByteTokenizer());
  ASSERT_FALSE(format.ok());
  EXPECT_EQ(format.status().message(),
            "The tokenizer has no special token <|im_start|>, which the Qwen3 chat format needs.");
  EXPECT_EQ(*ChatFormatOf("Qwen3MoeForCausalLM"), "qwen3");
  EXPECT_TRUE(CreateChatFormatFor(QwenToy()).value()->may_skip_thoughts());
  EXPECT_FALSE(CreateChatFormatFor(ByteTokenizer()).value()->may_skip_thoughts());
}

TEST(PythonJson, NumbersAndBlanksAreThoseOfPython) {
  const auto dumped = [](std::string_view json) { return PythonJson(ParseJson(json).value()); };
  EXPECT_EQ(dumped(R"({"a":[1,2,{}],"b":null,"c":true,"d":"\u00e9\u00e9\n\u0001/\"","e":[]})"),
            "{\"a\": [1, 2, {}], \"b\": null, \"c\": true, \"d\": \"\u00e9\u00e9\\n\\u0001/\\\"\", "
            "\"e\": []}");
  EXPECT_EQ(dumped("[1e5,1E16,1.5e300,0.0001,0.00001,1.25e-7,-0,-0.0,1e999,5e-324]"),
            "[100000.0, 1e+16, 1.5e+300, 0.0001, 1e-05, 1.25e-07, 0, -0.0, Infinity, 5e-324]");
  EXPECT_EQ(dumped("[123456789012345678901234567890,1.0,0.1,123456789.123]"),
            "[123456789012345678901234567890, 1.0, 0.1, 123456789.123]");
}

}  // namespace
}  // namespace rose
