#include "api/output_form.h"

#include <gtest/gtest.h>

#include "api/chat_fixture.h"
#include "grammar/grammars.h"

namespace rose {
namespace {

constexpr std::string_view kTools =
    R"("tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object",)"
    R"("properties":{"a":{"type":"integer"}},"required":["a"]}}},)"
    R"({"type":"function","function":{"name":"g"}}])";
constexpr std::string_view kFinal = "<|channel|>final<|message|>";

// Whether every token of `text`, the last one included, may be drawn where it stands.
bool MayBe(const ChatFixture& chat, const ChatCall& call, std::string_view text) {
  const Request request = call.RequestOf(0);
  if (request.constraint == nullptr) return true;
  const std::vector<int32_t> tokens = chat.tokenizer().EncodeWithSpecials(text);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto mask = request.constraint->Allowed(std::span(tokens).first(i)).value();
    if (!mask.empty() && ((mask[tokens[i] / 32] >> (tokens[i] % 32)) & 1) == 0) return false;
  }
  return true;
}

TEST(OutputForm, EveryFieldThatCarriesASchemaEnforcesIt) {
  ROSE_NEEDS_GRAMMARS();
  ChatFixture chat;
  const std::string schema =
      R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]})";
  std::string quoted;
  AppendJsonString(quoted, schema);
  for (const std::string& fields :
       {StrCat(R"("response_format":{"type":"json_schema","json_schema":{"name":"x","schema":)",
               schema, "}}"),
        StrCat(R"("guided_json":)", schema), StrCat(R"("guided_json":)", quoted),
        StrCat(R"("structured_outputs":{"json":)", schema, "}"),
        StrCat(R"("structured_outputs":{"json":)", quoted, R"(,"disable_any_whitespace":true})")}) {
    const ChatCall call = chat.Call(fields);
    EXPECT_TRUE(MayBe(chat, call, StrCat(kFinal, R"({"a":1}<|return|>)"))) << fields;
    EXPECT_TRUE(MayBe(chat, call,
                      StrCat("<|channel|>analysis<|message|>{{<|end|><|start|>assistant", kFinal,
                             R"({"a": 12}<|return|>)")))
        << fields;
    EXPECT_FALSE(MayBe(chat, call, StrCat(kFinal, R"({"a":"x)"))) << fields;
    EXPECT_FALSE(MayBe(chat, call, StrCat(kFinal, R"({}<|return|>)"))) << fields;
  }
}

TEST(OutputForm, ObjectsRegexesChoicesAndGrammars) {
  ROSE_NEEDS_GRAMMARS();
  ChatFixture chat;
  struct {
    const char *fields, *right, *wrong;
  } cases[] = {
      {R"("response_format":{"type":"json_object"})", R"({"x":[1]})", "[1]"},
      {R"("structured_outputs":{"json_object":true})", R"({"x":[1]})", "[1]"},
      {R"("guided_regex":"[ab]{2}")", "ab", "abc"},
      {R"("structured_outputs":{"regex":"[ab]{2}"})", "ba", "b"},
      {R"("guided_choice":["red","green"])", "green", "gre"},
      {R"("structured_outputs":{"choice":["red","green"]})", "red", "blue"},
      {R"("guided_grammar":"root ::= \"x\"+")", "xxx", "xy"},
      {R"("structured_outputs":{"grammar":"start: \"x\"+"})", "xxx", "xy"},
  };
  for (const auto& [fields, right, wrong] : cases) {
    const ChatCall call = chat.Call(fields);
    EXPECT_TRUE(MayBe(chat, call, StrCat(kFinal, right, "<|return|>"))) << fields;
    EXPECT_FALSE(MayBe(chat, call, StrCat(kFinal, wrong, "<|return|>"))) << fields;
  }
  EXPECT_EQ(chat.Call(R"("structured_outputs":{"json":null,"json_object":false})")
                .RequestOf(0)
                .constraint,
            nullptr);
}

TEST(OutputForm, EachChoiceHasItsOwnConstraint) {
  ROSE_NEEDS_GRAMMARS();
  ChatFixture chat;
  const std::vector<Request> requests =
      chat.Call(R"("n":2,"response_format":{"type":"json_object"})").Requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_NE(requests[0].constraint, nullptr);
  EXPECT_NE(requests[0].constraint, requests[1].constraint);
}

TEST(Case045, AFormThatCannotBeEnforcedIsRefused) {
  ROSE_NEEDS_GRAMMARS();
  ChatFixture chat;
  for (const char* schema : {R"({"type":"string","pattern":"(?=a)b"})", R"({"not":{}})",
                             R"({"$ref":"#"})", R"({"type":"object","properties":1})"}) {
    const std::string error = chat.ErrorOf(chat.ParseWith(
        StrCat(R"("response_format":{"type":"json_schema","json_schema":{"name":"x","schema":)",
               schema, "}}")));
    EXPECT_TRUE(error.starts_with("response_format: response_format cannot be enforced: "))
        << error;
  }
  EXPECT_TRUE(chat.ErrorOf(chat.ParseWith(R"("guided_regex":"(a")"))
                  .starts_with("guided_regex: guided_regex cannot be enforced: "));
  EXPECT_TRUE(
      chat.ErrorOf(
              chat.ParseWith(R"("tools":[{"type":"function","function":{"name":"f","strict":true,)"
                             R"("parameters":{"type":"object","not":{}}}}])"))
          .starts_with("tools[0]: "));
}

TEST(OutputForm, ABuildWithoutGrammarsSaysSo) {
  ChatFixture chat;
  chat.context().grammars = nullptr;
  const std::string error =
      chat.ErrorOf(chat.ParseWith(R"("response_format":{"type":"json_object"})"));
  EXPECT_NE(error.find("built without structured output"), std::string::npos) << error;
  // A call can be forced all the same.
  const ChatCall call = chat.Call(StrCat(kTools, R"(,"tool_choice":"required")"));
  EXPECT_FALSE(MayBe(chat, call, kFinal));
  EXPECT_TRUE(MayBe(chat, call, "<|channel|>commentary to=functions.f<|message|>x<|call|>"));
}

TEST(Case048, RequiredAndNamedCallsAreMade) {
  ROSE_NEEDS_GRAMMARS();
  ChatFixture chat;
  const std::string f = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>";
  const std::string g = " to=functions.g<|channel|>commentary<|message|>";
  const ChatCall required = chat.Call(StrCat(kTools, R"(,"tool_choice":"required")"));
  EXPECT_TRUE(MayBe(chat, required, f + R"({"a":1}<|call|>)"));
  EXPECT_TRUE(MayBe(chat, required, g + R"({"anything":null}<|call|>)"));
  EXPECT_FALSE(MayBe(chat, required, f + R"({}<|call|>)"));
  EXPECT_FALSE(MayBe(chat, required, g + "text"));
  EXPECT_FALSE(MayBe(chat, required, kFinal));
  EXPECT_EQ(Text(chat.Body(required, f + R"({"a":1}<|call|>)"), "choices.0.finish_reason"),
            "\"tool_calls\"");

  for (const char* choice :
       {R"({"type":"function","function":{"name":"g"}})", R"({"type":"function","name":"g"})"}) {
    const ChatCall named = chat.Call(StrCat(kTools, R"(,"tool_choice":)", choice));
    EXPECT_TRUE(MayBe(chat, named, g + "{}<|call|>"));
    EXPECT_FALSE(MayBe(chat, named, f));
    EXPECT_FALSE(MayBe(chat, named, kFinal));
    const JsonValue body = chat.Body(named, g + "{}<|call|>");
    EXPECT_EQ(Text(body, "choices.0.finish_reason"), "\"stop\"");
    EXPECT_EQ(Text(body, "choices.0.message.tool_calls.0.function.name"), "\"g\"");
    EXPECT_EQ(chat.Prompt(named), chat.Prompt(chat.Call(kTools)));
  }
  EXPECT_TRUE(
      chat.ErrorOf(chat.ParseWith(StrCat(
                       kTools, R"(,"tool_choice":{"type":"function","function":{"name":"h"}})")))
          .starts_with("tool_choice.function.name"));
}

TEST(OutputForm, AllowedToolsAloneAreCalled) {
  ChatFixture chat;
  const std::string f = "<|channel|>commentary to=functions.f<|message|>";
  const std::string g = " to=functions.g<|channel|>commentary<|message|>";
  const auto allowed = [&](std::string_view mode) {
    return StrCat(kTools, R"(,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":")",
                  mode, R"(","tools":[{"type":"function","function":{"name":"g"}}]}})");
  };
  const ChatCall automatic = chat.Call(allowed("auto")), required = chat.Call(allowed("required"));
  EXPECT_EQ(chat.Prompt(automatic), chat.Prompt(chat.Call(kTools)));  // all tools are shown
  for (const ChatCall& call : {automatic, required}) {
    EXPECT_TRUE(MayBe(chat, call, g + "{}<|call|>"));
    EXPECT_FALSE(MayBe(chat, call, f));
    EXPECT_EQ(Text(chat.Body(call, g + "{}<|call|>"), "choices.0.finish_reason"), "\"tool_calls\"");
  }
  EXPECT_TRUE(MayBe(chat, automatic, StrCat(kFinal, "Hello.<|return|>")));
  EXPECT_FALSE(MayBe(chat, required, kFinal));
}

TEST(OutputForm, AllowedToolsSayWhatIsWrong) {
  ChatFixture chat;
  const std::pair<const char*, const char*> cases[] = {
      {R"({"mode":"auto","tools":[]})", "tool_choice.allowed_tools.tools: "},
      {R"({"mode":"none","tools":[{"type":"function","name":"f"}]})",
       "tool_choice.allowed_tools.mode: "},
      {R"({"mode":"auto","tools":[{"type":"function","function":{"name":"h"}}]})",
       "tool_choice.allowed_tools.tools[0].function.name: "},
      {R"({"mode":"auto","tools":[{"type":"mcp","server_label":"x"}]})",
       "tool_choice.allowed_tools.tools[0].type: "}};
  for (const auto& [choice, begin] : cases) {
    const std::string error = chat.ErrorOf(chat.ParseWith(
        StrCat(kTools, R"(,"tool_choice":{"type":"allowed_tools","allowed_tools":)", choice, "}")));
    EXPECT_TRUE(error.starts_with(begin)) << error;
  }
  const std::string error =
      chat.ErrorOf(chat.ParseWith(StrCat(kTools, R"(,"tool_choice":{"type":"web_search"})")));
  EXPECT_TRUE(error.starts_with("tool_choice.type: tool_choice.type is \"web_search\"")) << error;
}

TEST(OutputForm, StrictToolsAreHeldToTheirSchema) {
  ROSE_NEEDS_GRAMMARS();
  ChatFixture chat;
  const ChatCall call =
      chat.Call(R"("tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":)"
                R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],)"
                R"("additionalProperties":false}}},{"type":"function","function":{"name":"g"}}])");
  const std::string f = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>";
  EXPECT_TRUE(MayBe(chat, call, f + R"({"a":1}<|call|>)"));
  EXPECT_FALSE(MayBe(chat, call, f + R"({"b")"));
  EXPECT_TRUE(MayBe(chat, call, "<|channel|>commentary to=functions.g<|message|>x<|call|>"));
  EXPECT_TRUE(MayBe(chat, call, StrCat(kFinal, "Hello.<|return|>")));
  // Without a strict tool nothing is masked.
  EXPECT_EQ(chat.Call(kTools).RequestOf(0).constraint, nullptr);
  EXPECT_EQ(chat.Call(StrCat(kTools, R"(,"tool_choice":"none")")).RequestOf(0).constraint, nullptr);
}

}  // namespace
}  // namespace rose
