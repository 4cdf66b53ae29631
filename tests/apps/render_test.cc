// rose render and rose parse over the reference's data, as other programs use them.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <sstream>

#include "apps/run_program.h"
#include "base/json.h"

namespace rose {
namespace {

std::vector<JsonValue> JsonLines(const std::string& text) {
  std::vector<JsonValue> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    auto json = ParseJson(line);
    EXPECT_TRUE(json.ok()) << line;
    out.push_back(json.ok() ? *json : JsonValue());
  }
  return out;
}

std::string GoldenText(const std::string& name) {
  std::ifstream file(ROSE_SOURCE_DIR "/tests/data/harmony/" + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string Name(const JsonValue& record) {
  return *record.Find("name")->string();
}

TEST(RenderCommand, EqualsTheReferenceOverAllItsCases) {
  const std::string golden = GoldenText("render.jsonl");
  const ProgramResult result = RunProgram({"render", "--messages"}, golden);
  EXPECT_EQ(result.exit_code, 2);  // three are refused
  EXPECT_EQ(result.err, "");
  const auto records = JsonLines(golden), answers = JsonLines(result.out);
  ASSERT_EQ(records.size(), 288u);
  ASSERT_EQ(answers.size(), records.size());
  int refused = 0;
  for (size_t i = 0; i < records.size(); ++i) {
    if (records[i].Find("tokens")->is_null()) {
      ++refused;
      ASSERT_TRUE(answers[i].Find("error")) << Name(records[i]);
      EXPECT_FALSE(answers[i].Find("error")->string()->empty());
      continue;
    }
    ASSERT_TRUE(answers[i].Find("token_ids")) << Name(records[i]) << WriteJson(answers[i]);
    EXPECT_EQ(WriteJson(*answers[i].Find("token_ids")), WriteJson(*records[i].Find("tokens")))
        << Name(records[i]);
    EXPECT_EQ(*answers[i].Find("text")->string(), *records[i].Find("text")->string());
    EXPECT_EQ(answers[i].object()->size(), 2u);
  }
  EXPECT_EQ(refused, 3);
}

TEST(RenderCommand, ABadLineIsAnErrorAndTheNextOneFollows) {
  const std::string good = R"({"messages":[{"role":"user","content":"hi"}],"for":"conversation"})";
  const std::string bad[] = {"",
                             "nonsense",
                             "17",
                             "{}",
                             R"({"messages":[{"role":"nobody","content":"x"}]})",
                             R"({"messages":[{"role":"user","content":7}]})",
                             R"({"messages":[{"role":"user","content":[{"type":"image"}]}]})",
                             R"({"messages":[],"for":"fun"})",
                             R"({"messages":[],"next_role":"king"})",
                             R"({"messages":[],"auto_drop_analysis":1})",
                             std::string(100000, '[')};
  std::string input;
  for (const std::string& line : bad) input += line + "\n" + good + "\n";
  const ProgramResult result = RunProgram({"render", "--messages"}, input);
  EXPECT_EQ(result.exit_code, 2);
  const auto answers = JsonLines(result.out);
  ASSERT_EQ(answers.size(), 2 * std::size(bad));
  for (size_t i = 0; i < std::size(bad); ++i) {
    EXPECT_TRUE(answers[2 * i].Find("error")) << bad[i].substr(0, 80);
    EXPECT_EQ(WriteJson(answers[2 * i + 1]), R"({"token_ids":[200006,1428,200008,3686,200007],)"
                                             R"("text":"<|start|>user<|message|>hi<|end|>"})");
  }
  EXPECT_EQ(RunProgram({"render", "--messages"}, good + "\n").exit_code, 0);
}

TEST(RenderCommand, WhatIsAbsentIsACompletionOfTheAssistant) {
  const ProgramResult result = RunProgram(
      {"render", "--messages"},
      "[{\"role\":\"user\",\"content\":\"hi\"}]\n"
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"for":null})");
  EXPECT_EQ(result.exit_code, 0) << result.out;
  const std::string line =
      "{\"token_ids\": [200006, 1428, 200008, 3686, 200007, 200006, 173781], \"text\": "
      "\"<|start|>user<|message|>hi<|end|><|start|>assistant\"}\n";
  EXPECT_EQ(result.out, line + line);
}

TEST(RenderCommand, WritesAscii) {
  const ProgramResult result = RunProgram(
      {"render", "--messages"},
      "[{\"role\":\"user\",\"content\":\"\\u2028\\ud83e\\udd99\\u0085\u00e9\\u007f\\n\"}]\n");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.out.find(R"(<|message|>\u2028\ud83e\udd99\u0085\u00e9\u007f\n<|end|>)"),
            std::string::npos)
      << result.out;
}

TEST(RenderCommand, ARequestIsWhatTheChatEndpointPrefills) {
  const ProgramResult result = RunProgram(
      {"render", "--date", "2026-05-05"},
      R"({"model":"any","messages":[{"role":"system","content":"Be brief."},{"role":"user",)"
      R"("content":"hi"}],"reasoning_effort":"low","temperature":0.5})"
      "\n"
      R"({"messages":[{"role":"king","content":"hi"}]})"
      "\n"
      R"({"messages":[{"role":"user","content":"hi"}],"temperature":7})"
      "\nnonsense\n");
  EXPECT_EQ(result.exit_code, 2);
  const auto answers = JsonLines(result.out);
  ASSERT_EQ(answers.size(), 4u);
  ASSERT_TRUE(answers[0].Find("text")) << result.out;
  EXPECT_EQ(*answers[0].Find("text")->string(),
            "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n"
            "Knowledge cutoff: 2024-06\nCurrent date: 2026-05-05\n\nReasoning: low\n\n# Valid "
            "channels: analysis, commentary, final. Channel must be included for every message."
            "<|end|><|start|>developer<|message|># Instructions\n\nBe brief.<|end|>"
            "<|start|>user<|message|>hi<|end|><|start|>assistant");
  EXPECT_NE(answers[1].Find("error")->string()->find("messages[0].role"), std::string::npos);
  EXPECT_NE(answers[2].Find("error")->string()->find("temperature"), std::string::npos);
  EXPECT_TRUE(answers[3].Find("error"));
  EXPECT_EQ(RunProgram({"render", "--date", "tomorrow"}, "").exit_code, 2);
  for (const char* date : {"2026-99-99", "2026-00-10", "2026-02-29", "2026-04-31", "2026-12-00"})
    EXPECT_EQ(RunProgram({"render", "--date", date}, "").exit_code, 2) << date;
  EXPECT_EQ(RunProgram({"render", "--date", "2028-02-29"}, "").exit_code, 0);
}

TEST(RenderCommand, ARequestThatAsksForAFormIsReadAsTheEndpointReadsIt) {
  const std::string user = R"({"messages":[{"role":"user","content":"hi"}],)";
  const ProgramResult result = RunProgram(
      {"render"},
      user +
          R"("response_format":{"type":"json_schema","json_schema":{"name":"n","schema":)"
          R"({"type":"object"},"strict":true}},"tools":[{"type":"function","function":)"
          R"({"name":"f","strict":true,"parameters":{"type":"object"}}}]})" +
          "\n" + user + R"("tool_choice":{"type":"function","function":{"name":"g"}}})" + "\n");
  const auto answers = JsonLines(result.out);
  ASSERT_EQ(answers.size(), 2u);
  if (result.out.find("built without structured output") != std::string::npos) GTEST_SKIP();
  ASSERT_TRUE(answers[0].Find("text")) << result.out;
  EXPECT_NE(answers[0].Find("text")->string()->find("# Response Formats"), std::string::npos);
  EXPECT_TRUE(answers[1].Find("error"));
}

// The rule for old thoughts differs: the reference keeps what stands after the first answer.
TEST(Case033, ARequestAndTheReferenceDropByTheirOwnRules) {
  const std::string turn =
      R"({"role":"user","content":"q"},{"role":"assistant","reasoning":"A","content":"F"},)";
  const ProgramResult request = RunProgram(
      {"render"}, R"({"messages":[)" + turn + turn + R"({"role":"user","content":"q"}]})");
  EXPECT_EQ(request.out.find("analysis<|message|>A"), std::string::npos);
  const std::string spoken =
      R"({"role":"user","content":"q"},{"role":"assistant","channel":"analysis","content":"A"},)"
      R"({"role":"assistant","channel":"final","content":"F"},)";
  const ProgramResult messages = RunProgram(
      {"render", "--messages"}, "[" + spoken + spoken + R"({"role":"user","content":"q"}])");
  const size_t first = messages.out.find("analysis<|message|>A");
  ASSERT_NE(first, std::string::npos) << messages.out;
  EXPECT_EQ(messages.out.find("analysis<|message|>A", first + 1), std::string::npos);
}

// The reference's "all" and our null are both nobody.
std::string Member(const JsonValue& message, const char* key) {
  const JsonValue* value = message.Find(key);
  return value && value->string() ? *value->string() : "(none)";
}

TEST(ParseCommand, EqualsTheReferenceOverAllItsCases) {
  std::string input;
  const auto records = JsonLines(GoldenText("parse.jsonl"));
  ASSERT_EQ(records.size(), 296u);
  for (const JsonValue& record : records) input += WriteJson(*record.Find("tokens")) + "\n";
  const ProgramResult result = RunProgram({"parse", "--json"}, input);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  const auto answers = JsonLines(result.out);
  ASSERT_EQ(answers.size(), records.size());
  int compared = 0;
  for (size_t i = 0; i < records.size(); ++i) {
    ASSERT_TRUE(answers[i].Find("messages") && answers[i].Find("messages")->array());
    const auto& got = *answers[i].Find("messages")->array();
    for (const JsonValue& message : got) EXPECT_EQ(message.object()->size(), 5u);
    if (*records[i].Find("malformed")->boolean()) continue;
    ++compared;
    const auto& expected = *records[i].Find("messages")->array();
    ASSERT_EQ(got.size(), expected.size()) << Name(records[i]);
    for (size_t k = 0; k < got.size(); ++k) {
      for (const char* key : {"channel", "recipient", "content_type"})
        EXPECT_EQ(Member(got[k], key), Member(expected[k], key)) << Name(records[i]) << key;
      std::string text;
      for (const JsonValue& part : *expected[k].Find("content")->array())
        text += *part.Find("text")->string();
      EXPECT_EQ(Member(got[k], "text"), text) << Name(records[i]);
      // Where the stream does not say it, the reference was told.
      const std::string role = Member(expected[k], "role");
      if (k > 0 || Member(records[i], "role") == "(none)") {
        EXPECT_EQ(Member(got[k], "role"), role == "tool" ? Member(expected[k], "name") : role);
      }
    }
  }
  EXPECT_EQ(compared, 115);
}

TEST(ParseCommand, TheFormOfALine) {
  const ProgramResult result = RunProgram(
      {"parse", "--json"},
      // A thought, and a call cut in its body.
      "[200005, 35644, 200008, 35604, 13, 200007, 200006, 173781, 200005, 12606, 815, 316, 28, "
      "44580, 1196, 220, 200003, 4108, 200008, 12083]\n"
      "[]\n"
      "[200005, 17196]\n"               // no <|message|>: no message
      "[200006, 1428, 200008, 3686]\n"  // with <|start|>
      "[1.5]\n"
      "{\"ids\": []}\n"
      "[-1, 201088, 4294967296, 200005, 17196, 200008, 3686]\n");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(
      result.out,
      "{\"messages\": [{\"role\": \"assistant\", \"channel\": \"analysis\", \"recipient\": "
      "null, \"content_type\": null, \"text\": \"Four.\"}, {\"role\": \"assistant\", "
      "\"channel\": \"commentary\", \"recipient\": \"functions.f\", \"content_type\": "
      "\"<|constrain|>json\", \"text\": \"{}\"}]}\n"
      "{\"messages\": []}\n"
      "{\"messages\": []}\n"
      "{\"messages\": [{\"role\": \"user\", \"channel\": null, \"recipient\": null, "
      "\"content_type\": null, \"text\": \"hi\"}]}\n"
      "{\"error\": \"a token id must be a whole number, not 1.5\"}\n"
      "{\"error\": \"expected a list of token ids\"}\n"
      "{\"messages\": [{\"role\": \"assistant\", \"channel\": \"final\", \"recipient\": null, "
      "\"content_type\": null, \"text\": \"hi\"}]}\n");
}

TEST(ParseCommand, ForEyes) {
  const ProgramResult result =
      RunProgram({"parse"},
                 "[200005, 35644, 200008, 35604, 13, 200007, 200006, 173781, 200005, 17196,\n"
                 "200008, 3686]\n");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "[assistant, analysis]\nFour.\n[assistant, final]\nhi\n(cut)\n");
  EXPECT_EQ(RunProgram({"parse"}, "200005").exit_code, 2);
}

}  // namespace
}  // namespace rose
