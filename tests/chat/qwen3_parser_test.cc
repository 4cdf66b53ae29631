// Streams of the Qwen3 format, right and broken: what they mean is decided in docs/chat.md.
#include <gtest/gtest.h>

#include <random>

#include "chat/dialects.h"
#include "chat/parsed_messages.h"

namespace rose {
namespace {

using Target = ChatEvent::Target;

Parsed ParseIds(std::span<const int32_t> ids, const std::vector<std::string>& names = {},
                bool continues = false) {
  std::vector<ToolSpec> tools;
  for (const std::string& name : names) tools.push_back({.name = name});
  const auto format = Qwen3Dialect().Format();
  const auto parser = format->NewParser(tools, continues);
  std::vector<ChatEvent> events;
  for (const int32_t id : ids) parser->Push(id, events);
  parser->Finish(events);
  return Fold(events);
}

Parsed Parse(std::string_view text, const std::vector<std::string>& names = {}) {
  return ParseIds(Qwen3Dialect().Tokens(text), names);
}

TEST(Qwen3Parser, ThoughtsTextAndCalls) {
  const Parsed parsed = Parse(
      "<think>\nLet me\n\nlook.\n</think>\n\nOne moment.\n<tool_call>\n"
      "{\"name\": \"f\", \"arguments\": {\"a\": [1, \"}\"]}}\n</tool_call>\n<tool_call>\n"
      "{\"name\": \"g\", \"arguments\": {}}\n</tool_call><|im_end|>");
  EXPECT_EQ(parsed.reasoning(), "Let me\n\nlook.");
  EXPECT_EQ(parsed.content(), "One moment.");
  EXPECT_EQ(parsed.calls(), "f({\"a\": [1, \"}\"]})|g({})");
  EXPECT_EQ(parsed.dropped, "");
  for (const ParsedMessage& message : parsed.messages) EXPECT_TRUE(message.complete);
  EXPECT_EQ(Parse("<think>\n\n</think>\n\nHi.<|im_end|>").messages.size(), 1u);
  EXPECT_EQ(Parse("<|im_end|>").messages.size(), 0u);
}

TEST(Qwen3Parser, LineEndsOfATextAreItsOwn) {
  EXPECT_EQ(Parse("Hi.\n\n<|im_end|>").content(), "Hi.\n\n");
  EXPECT_EQ(Parse("a\n\nb<|im_end|>").content(), "a\n\nb");
  EXPECT_EQ(Parse("a\n\n\n<tool_call>").content(), "a\n\n");
  EXPECT_EQ(Parse("Hi.\n").content(), "Hi.\n");
  EXPECT_FALSE(Parse("Hi.\n").messages[0].complete);
  EXPECT_EQ(ParseIds(Qwen3Dialect().Tokens("\n- b<|im_end|>"), {}, true).content(), "\n- b");
}

TEST(Qwen3Parser, CallsInOddForms) {
  const auto calls = [](std::string_view body) {
    return Parse("<tool_call>" + std::string(body) + "</tool_call><|im_end|>").calls();
  };
  EXPECT_EQ(calls(R"({"arguments":{"a":1},"name":"f"})"), R"(f({"a":1}))");
  EXPECT_EQ(calls(R"( { "id" : [1,{"name":"x"}], "name" : "f" , "arguments" : [ 1 ] } )"),
            "f([ 1 ])");
  EXPECT_EQ(calls(R"({"name":"f"})"), "f()");
  EXPECT_EQ(calls(R"({"name":"f","arguments":null})"), "f(null)");
  EXPECT_EQ(calls(R"({"name":"f","arguments":"{\"a\": \"}\"}"})"), R"(f("{\"a\": \"}\"}"))");
  EXPECT_EQ(calls(R"({"name":"\u0066","arguments":1.50})"), "f(1.50)");
  EXPECT_EQ(calls(R"({"name":"f","arguments":{"a":1},"arguments":{"b":1},"name":"g"})"),
            R"(f({"a":1}))");
  // Arguments that are not right are the caller's to judge.
  EXPECT_EQ(calls(R"({"name":"f","arguments":{"a":)"), R"(f({"a":))");
  EXPECT_EQ(calls(R"({"name":"f","arguments":{"a" 1]})"), R"(f({"a" 1]))");
  EXPECT_EQ(calls(R"({"name":"f", arguments: {}})"), "f()");
}

TEST(Qwen3Parser, WhatIsNoCallIsAThought) {
  for (const std::string body :
       {"", "\n\n", "no json", "[1]", "{}", R"({"name":1})", R"({"name":""})", R"({"name" "f"})",
        R"({"nam":"f","arguments":{}})", R"({"name":"a b","arguments":{}})", R"({"name":"f)"}) {
    const Parsed parsed = Parse("<tool_call>\n" + body + "\n</tool_call>Hm.<|im_end|>");
    EXPECT_EQ(parsed.calls(), "") << body;
    EXPECT_EQ(parsed.content(), "Hm.") << body;
    const size_t first = body.find_first_not_of('\n');
    EXPECT_EQ(parsed.reasoning(), first == body.npos ? "" : body) << body;
  }
  // A declared name may be any.
  EXPECT_EQ(Parse(R"(<tool_call>{"name":"a b","arguments":{}}</tool_call>)", {"a b"}).calls(),
            "a b({})");
}

TEST(Qwen3Parser, MarkersWithoutTheirPlace) {
  EXPECT_EQ(Parse("a</think>b</tool_call>c<|box_start|>d<|im_end|>").content(), "abcd");
  EXPECT_EQ(Parse("a</think>b").dropped, "</think>");
  // Thoughts that a call ends; a call that the answer's end ends; thoughts within an answer.
  EXPECT_EQ(Parse(R"(<think>hm<tool_call>{"name":"f","arguments":{}}</tool_call>)").calls(),
            "f({})");
  EXPECT_EQ(Parse(R"(<tool_call>{"name":"f","arguments":{"a":1}}<|im_end|>)").calls(),
            R"(f({"a":1}))");
  EXPECT_EQ(Parse("a<think>b</think>c").content(), "a|c");
  EXPECT_EQ(Parse(R"(<tool_call>{"name":"f"<tool_call>{"name":"g"}</tool_call>)").calls(),
            "f()|g()");
}

TEST(Qwen3Parser, OthersAreNotHeard) {
  Parsed parsed = Parse(
      "Hi.<|im_end|>\n<|im_start|>user\nAnd <think>you</think>?<|im_end|>\n"
      "<|im_start|>assistant\nMe too.<|im_end|>");
  EXPECT_EQ(parsed.content(), "Hi.|Me too.");
  EXPECT_EQ(parsed.Of(Target::kHidden), "And you?");
  EXPECT_EQ(parsed.messages[1].author, "user");
  parsed = Parse("a\n<tool_response>\nmade up\n</tool_response>b<|im_start|>tool");
  EXPECT_EQ(parsed.content(), "a\n|b");
  EXPECT_EQ(parsed.Of(Target::kHidden), "\nmade up\n");
  EXPECT_EQ(Parse("a<|im_end|>stray").dropped, "stray");
}

// Ordinary tokens that spell a marker are text.
TEST(Qwen3Parser, SpelledMarkersAreText) {
  const std::string text = "<tool_call>{\"name\":\"f\"}</tool_call><think>";
  EXPECT_EQ(ParseIds(QwenToy().Encode(text)).content(), text);
}

// Any tokens: nothing fails, and the start of a stream says the start of what the whole says.
TEST(Qwen3Parser, RandomStreamsCutAnywhere) {
  std::mt19937 random(3);
  const std::vector<std::string> parts = {"<think>",
                                          "</think>",
                                          "<tool_call>",
                                          "</tool_call>",
                                          "<tool_response>",
                                          "</tool_response>",
                                          "<|im_end|>",
                                          "<|im_start|>",
                                          "assistant\n",
                                          "\n",
                                          "\n\n",
                                          "text ",
                                          "{\"name\": \"f\", \"arguments\": ",
                                          "{\"a\":",
                                          "}",
                                          "\"",
                                          "\\",
                                          "}\n",
                                          "\u4eca",
                                          "[1, 2]",
                                          ",",
                                          "<|file_sep|>"};
  for (int round = 0; round < 3000; ++round) {
    std::vector<int32_t> ids;
    for (int n = 0; n < 14; ++n) {
      const auto more = Qwen3Dialect().Tokens(parts[random() % parts.size()]);
      ids.insert(ids.end(), more.begin(), more.end());
      if (random() % 10 == 0) ids.push_back(static_cast<int32_t>(random() % 1300));
    }
    const Parsed whole = ParseIds(ids);
    const size_t cut = random() % ids.size();
    const Parsed part = ParseIds(std::span(ids).first(cut));
    for (size_t i = 0; i + 1 < part.messages.size(); ++i)
      ASSERT_EQ(part.messages[i], whole.messages[i]) << Qwen3Dialect().tokenizer.Decode(ids);
  }
}

}  // namespace
}  // namespace rose
