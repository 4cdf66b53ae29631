// Broken and odd streams: what each of them means is decided in docs/chat.md.
#include <gtest/gtest.h>

#include <random>

#include "base/utf8.h"
#include "chat/byte_tokenizer.h"
#include "chat/harmony.h"
#include "chat/parsed_messages.h"

namespace rose {
namespace {

using Target = ChatEvent::Target;

std::vector<ToolSpec> Declare(std::vector<std::string> names) {
  std::vector<ToolSpec> tools;
  for (std::string& name : names) tools.push_back({std::move(name), {}, {}});
  return tools;
}

Parsed ParseIds(std::span<const int32_t> ids, std::span<const ToolSpec> tools = {}) {
  const ByteTokenizer tokenizer;
  const auto format = CreateHarmony(tokenizer);
  const auto parser = (*format)->NewParser(tools);
  std::vector<ChatEvent> events;
  for (const int32_t id : ids) parser->Push(id, events);
  parser->Finish(events);
  return Fold(events);
}

// Text with markers, one byte a token.
Parsed Parse(std::string_view text, std::vector<std::string> tools = {}) {
  return ParseIds(ByteTokenizer().EncodeWithSpecials(text), Declare(std::move(tools)));
}

TEST(Case001, StrayWordsInAHeaderAreDropped) {
  auto parsed =
      Parse("<|channel|>commentary ?? to=functions.f <|constrain|>json<|message|>{}<|call|>");
  EXPECT_EQ(parsed.calls(), "f({})");
  EXPECT_EQ(parsed.messages[0].content_type, "<|constrain|>json");
  EXPECT_EQ(parsed.dropped, "??");

  parsed = Parse(
      R"(<|channel|>commentary to=functions.web-search code json<|message|>{"q":"x"}<|call|>)");
  EXPECT_EQ(parsed.calls(), R"(web-search({"q":"x"}))");
  EXPECT_EQ(parsed.messages[0].content_type, "json");
  EXPECT_EQ(parsed.dropped, "code");

  EXPECT_EQ(Parse("<|channel|>commentary json to=functions.f<|message|>{}<|call|>").calls(),
            "f({})");
  EXPECT_EQ(Parse("<|channel|>commentary to= functions.f<|message|>{}<|call|>").calls(), "f({})");
  EXPECT_EQ(Parse("<|channel|>commentaryto=functions.f<|message|>{}<|call|>").calls(), "f({})");
}

TEST(Case003, AContentTypeIsNoRecipient) {
  auto parsed = Parse(R"(<|channel|>final <|constrain|>json<|message|>{"ok":true}<|return|>)");
  EXPECT_EQ(parsed.content(), R"({"ok":true})");
  EXPECT_EQ(parsed.messages[0].recipient, "");
  EXPECT_EQ(parsed.messages[0].content_type, "<|constrain|>json");
  parsed = Parse("<|channel|>final json<|message|>hi<|return|>");
  EXPECT_EQ(parsed.content(), "hi");
  EXPECT_EQ(parsed.messages[0].content_type, "json");
  EXPECT_EQ(parsed.messages[0].recipient, "");
  parsed = Parse("<|channel|>analysis <|constrain|> json<|message|>hi<|end|>");
  EXPECT_EQ(parsed.reasoning(), "hi");
  EXPECT_EQ(parsed.messages[0].content_type, "<|constrain|>json");
}

TEST(Case004, ControlTokensEndAName) {
  EXPECT_EQ(Parse("<|channel|>commentary to=functions.cart<|channel|>commentary "
                  "<|constrain|>json<|message|>{}<|call|>")
                .calls(),
            "cart({})");
  // The same, spelled in ordinary tokens.
  std::vector<int32_t> ids = ByteTokenizer().EncodeWithSpecials("<|channel|>commentary");
  for (const char c : std::string(" to=functions.cart<|channel|>commentary")) ids.push_back(c);
  for (const int32_t id : ByteTokenizer().EncodeWithSpecials("<|message|>{}<|call|>"))
    ids.push_back(id);
  EXPECT_EQ(ParseIds(ids).calls(), "cart({})");
  // No valid name is left: no call, and nothing of it is shown.
  for (const char* recipient : {"assistant<|channel|>analysis", "functions.", "functions.a.b",
                                "functions.\xff", "functions.a\"b", "json", "python"}) {
    const auto parsed =
        Parse(StrCat("<|channel|>commentary to=", recipient, "<|message|>{}<|call|>"));
    EXPECT_EQ(parsed.calls(), "") << recipient;
    EXPECT_EQ(parsed.content(), "") << recipient;
    EXPECT_EQ(parsed.reasoning(), "{}") << recipient;
  }
  EXPECT_EQ(Parse("<|channel|>commentary to=functions.a.b<|message|>{}<|call|>", {"a.b"}).calls(),
            "a.b({})");
}

TEST(HarmonyStream, AnyWhiteSpaceParts) {
  for (const char* blank : {" ", "\t", "\n", "\r\n", "\u0085", "\u00a0", "\u1680", "\u2000",
                            "\u200a", "\u2028", "\u202f", "\u3000", " \u2003 "}) {
    const auto parsed = Parse(StrCat("<|channel|>commentary", blank, "to=functions.f", blank,
                                     "json", blank, "<|message|>{}<|call|>"));
    EXPECT_EQ(parsed.calls(), "f({})") << blank;
    EXPECT_EQ(parsed.messages[0].channel, "commentary");
    EXPECT_EQ(parsed.messages[0].content_type, "json");
  }
  // No white space: a zero-width space, a bullet.
  EXPECT_EQ(Parse("<|channel|>final\u200b<|message|>x").messages[0].channel, "final\u200b");
  EXPECT_EQ(Parse("<|channel|>final\u2022<|message|>x").messages[0].channel, "final\u2022");
}

TEST(Case007, TheRecipientDecidesOnAnyChannel) {
  const auto parsed = Parse(
      "<|channel|>analysis<|message|>look<|end|><|start|>assistant<|channel|>analysis "
      R"(to=functions.grep code<|message|>{"p":"see functions.y"}<|call|>)");
  EXPECT_EQ(parsed.reasoning(), "look");
  EXPECT_EQ(parsed.calls(), R"(grep({"p":"see functions.y"}))");
  EXPECT_EQ(parsed.messages[1].content_type, "code");
  EXPECT_EQ(parsed.messages[1].channel, "analysis");
  // One prefix goes, and only one.
  const char* twice = "<|channel|>commentary to=functions.functions.x<|message|>{}<|call|>";
  EXPECT_EQ(Parse(twice, {"functions.x"}).calls(), "functions.x({})");
  EXPECT_EQ(Parse(twice, {"x"}).calls(), "");
  EXPECT_EQ(Parse("<|channel|>final to=functions.f<|message|>{}<|call|>").calls(), "f({})");
  // A declared name may lack the prefix.
  const char* bare = "<|channel|>commentary to=f<|message|>{}<|call|>";
  EXPECT_EQ(Parse(bare, {"f"}).calls(), "f({})");
  EXPECT_EQ(Parse(bare, {"g"}).calls(), "");
}

TEST(Case008, BothOrdersOfTheHeaderAreOne) {
  const auto after =
      Parse("<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>");
  const auto before =
      Parse(" to=functions.f<|channel|>commentary <|constrain|>json<|message|>{}<|call|>");
  EXPECT_EQ(after, before);
  EXPECT_EQ(after.messages[0].recipient, "functions.f");
}

TEST(Case011, AMissingStartIsForgiven) {
  auto parsed =
      Parse("<|channel|>analysis<|message|>a<|end|>commentary to=functions.f<|message|>{}<|call|>");
  EXPECT_EQ(parsed.reasoning(), "a");
  EXPECT_EQ(parsed.content(), "{}");
  EXPECT_EQ(parsed.dropped, "commentary to=functions.f");
  parsed = Parse("<|channel|>analysis<|message|>a<|end|><|channel|>final<|message|>b<|return|>");
  EXPECT_EQ(parsed.reasoning(), "a");
  EXPECT_EQ(parsed.content(), "b");
  EXPECT_EQ(parsed.messages[1].author, "assistant");
  parsed = Parse(
      "<|channel|>analysis<|message|>a<|end|>so <|end|>then<|call|><|start|>assistant<|channel|>"
      "final<|message|>b<|return|>");
  EXPECT_EQ(parsed.content(), "b");
  EXPECT_EQ(parsed.dropped, "so then");
  // Started again, or in the middle of a body.
  EXPECT_EQ(Parse("<|start|>assistant<|start|>assistant<|channel|>final<|message|>b").content(),
            "b");
  parsed = Parse(
      "<|channel|>analysis<|message|>a<|start|>assistant<|channel|>final<|message|>b<|return|>");
  EXPECT_EQ(parsed.reasoning(), "a");
  EXPECT_EQ(parsed.content(), "b");
  parsed = Parse("<|channel|>analysis<|message|>a<|channel|>final<|message|>b<|return|>");
  EXPECT_EQ(parsed.reasoning(), "a");
  EXPECT_EQ(parsed.content(), "b");
  // The role missing, or grown together with the channel.
  for (const char* start :
       {"<|start|><|channel|>final", "<|start|>assistantfinal", "<|start|>final",
        "<|start|>Assistant<|channel|>final", "<|start|>assistant final"})
    EXPECT_EQ(
        Parse(StrCat("<|channel|>analysis<|message|>a<|end|>", start, "<|message|>b")).content(),
        "b")
        << start;
}

TEST(Case012, TextStuckInAHeaderIsHandedOut) {
  auto parsed = Parse(
      "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final The sum is "
      "4.<|return|>");
  EXPECT_EQ(parsed.reasoning(), "a");
  EXPECT_EQ(parsed.content(), "The sum is 4.");
  EXPECT_TRUE(parsed.messages[1].complete);
  EXPECT_EQ(Parse("The sum\n is 4.<|return|>").content(), "The sum\n is 4.");
  EXPECT_EQ(Parse("<|channel|>analysis think<|start|>assistant<|channel|>final<|message|>b"),
            Parse("<|channel|>analysis<|message|>think<|end|><|start|>assistant<|channel|>final"
                  "<|message|>b"));
  EXPECT_EQ(
      Parse(R"(<|channel|>commentary to=functions.f <|constrain|>json{"a": 1}<|call|>)").calls(),
      R"(f({"a": 1}))");
  EXPECT_EQ(Parse(R"(<|channel|>commentary to=functions.f json {"a": 1}<|call|>)").calls(),
            R"(f({"a": 1}))");
  // A header without anything to say is no message.
  EXPECT_TRUE(Parse("<|channel|>final<|end|>").messages.empty());
  EXPECT_TRUE(Parse("<|return|>").messages.empty());
  // An endless header turns into a body and streams.
  parsed = Parse("<|channel|>final " + std::string(100000, 'x'));
  EXPECT_EQ(parsed.content().size(), 100000u);
  EXPECT_EQ(parsed.messages[0].channel, "final");
}

TEST(Case016, AnyCloserEndsACall) {
  for (const char* closer : {"<|call|>", "<|return|>", "<|end|>", "<|endoftext|>", ""}) {
    const auto parsed = Parse(
        StrCat("<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}", closer));
    EXPECT_EQ(parsed.calls(), "f({})") << closer;
    EXPECT_EQ(parsed.messages[0].complete, *closer != 0);
  }
  // Cut inside the header: no message.
  for (const char* cut :
       {"<|channel|>commentary to=functions.f <|constrain|>json", "<|channel|>commentary to=func",
        "<|channel|>commentary to=functions.f", "<|channel|>", ""}) {
    const auto parsed = Parse(cut);
    EXPECT_TRUE(parsed.messages.empty()) << cut;
  }
  EXPECT_EQ(Parse("<|channel|>commentary to=functions.f<|call|>").calls(), "f()");
}

TEST(Case017, OnlyTheAssistantSpeaks) {
  auto parsed = Parse(
      "<|channel|>commentary to=functions.f<|message|>{}<|call|><|start|>functions.f "
      R"(to=assistant<|channel|>commentary<|message|>{"temp":99}<|end|><|start|>assistant)"
      "<|channel|>final<|message|>99<|return|>");
  EXPECT_EQ(parsed.calls(), "f({})");
  EXPECT_EQ(parsed.content(), "99");
  EXPECT_EQ(parsed.Of(Target::kHidden), R"({"temp":99})");
  EXPECT_EQ(parsed.messages[1].author, "functions.f");
  for (const char* author : {"functions.f", "user", "system", "user:bob", "nobody"}) {
    parsed = Parse(StrCat("<|channel|>final<|message|>a<|end|><|start|>", author,
                          "<|channel|>commentary<|message|>{}<|call|>"));
    EXPECT_EQ(parsed.content(), "a") << author;
    EXPECT_EQ(parsed.Of(Target::kHidden), "{}") << author;
  }
}

TEST(Case019, ArgumentsAreNeverJudged) {
  for (const char* arguments : {R"({"a":{"b":1})", R"({"i":"x"}])", R"([{"i":"x"}])",
                                R"({"a":1}{"b":2})", "ls -R", "{\"a\":\"x\ny\"}", ""})
    EXPECT_EQ(Parse(StrCat("<|channel|>commentary to=functions.f <|constrain|>json<|message|>",
                           arguments, "<|call|>"))
                  .calls(),
              StrCat("f(", arguments, ")"));
}

TEST(Case020, APreambleIsContent) {
  const auto parsed = Parse(
      "<|channel|>commentary<|message|>Plan: two steps.<|end|><|start|>assistant<|channel|>"
      "commentary to=functions.f <|constrain|>json<|message|>{}<|call|>");
  EXPECT_EQ(parsed.content(), "Plan: two steps.");
  EXPECT_EQ(parsed.reasoning(), "");
  EXPECT_EQ(parsed.calls(), "f({})");
}

TEST(Case023, MarkersNeverReachAField) {
  EXPECT_EQ(Parse(R"(<|channel|>commentary<|message|>{"path":"/"}<|end|>)").content(),
            R"({"path":"/"})");
  EXPECT_EQ(
      Parse("<|channel|>final<|message|>a<|message|>b<|constrain|>c<|startoftext|>d").content(),
      "abcd");
  // Spelled with ordinary tokens it is text like any other.
  std::vector<int32_t> ids = ByteTokenizer().EncodeWithSpecials("<|channel|>final<|message|>");
  for (const char c : std::string("say <|end|>")) ids.push_back(c);
  EXPECT_EQ(ParseIds(ids).content(), "say <|end|>");
}

TEST(Case061, BadBytesBecomeReplacementsAndStayInTheirMessage) {
  EXPECT_EQ(Parse("<|channel|>final<|message|>\xff\x6f\x6b<|return|>").content(), "\uFFFDok");
  auto parsed = Parse(
      "<|channel|>analysis<|message|>\xe2<|end|><|start|>assistant<|channel|>final<|message|>hi"
      "<|return|>");
  EXPECT_EQ(parsed.reasoning(), "\uFFFD");
  EXPECT_EQ(parsed.content(), "hi");
  EXPECT_EQ(Parse("<|channel|>final<|message|>ok\xf0\x9f\xa6").content(), "ok\uFFFD");
  // Nor do they leave a header, or what stands between messages.
  parsed = Parse("<|channel|>final\xe2<|message|>a<|end|>\xe2<|start|>assistant\xe2<|message|>b");
  EXPECT_EQ(parsed.messages[0].text, "a");
  EXPECT_EQ(parsed.messages[1].text, "b");
}

TEST(Case062, CharactersAreNotSplit) {
  const ByteTokenizer tokenizer;
  for (const char* header :
       {"<|channel|>final", "<|channel|>analysis", "<|channel|>commentary to=functions.f"}) {
    const auto parser = (*CreateHarmony(tokenizer))->NewParser({});
    std::vector<ChatEvent> events;
    for (const int32_t id :
         tokenizer.EncodeWithSpecials(StrCat(header, "<|message|>\U0001F999\u00e9<|end|>")))
      parser->Push(id, events);
    std::vector<std::string> pieces;
    for (const ChatEvent& event : events)
      if (event.kind == ChatEvent::Kind::kText) pieces.push_back(event.text);
    EXPECT_EQ(pieces, (std::vector<std::string>{"\U0001F999", "\u00e9"}));
  }
}

TEST(Case063, UnknownIdsAreNothing) {
  std::vector<int32_t> ids = ByteTokenizer().EncodeWithSpecials("<|channel|>final<|message|>a");
  for (const int32_t id : {-1, 200019, 200100, 201087, 201088, INT32_MAX, INT32_MIN})
    ids.push_back(id);
  ids.push_back('b');
  EXPECT_EQ(ParseIds(ids).content(), "ab");
}

// Any stream: no crash, valid UTF-8, begins and ends that nest, and the events before a cut are
// those of the whole stream.
TEST(HarmonyStream, RandomTokensAreAlwaysSomething) {
  const std::vector<std::string> pieces = {"<|start|>",
                                           "<|end|>",
                                           "<|message|>",
                                           "<|channel|>",
                                           "<|constrain|>",
                                           "<|call|>",
                                           "<|return|>",
                                           "<|endoftext|>",
                                           "assistant",
                                           "analysis",
                                           "final",
                                           "commentary",
                                           " to=functions.f",
                                           " to=",
                                           "json",
                                           " ",
                                           "{\"a\":1}",
                                           "\xe2",
                                           "\x82",
                                           "\xff",
                                           "user",
                                           "functions.f",
                                           "\n"};
  const ByteTokenizer tokenizer;
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int i = 0; i < 24; ++i) text += pieces[random() % pieces.size()];
    const auto ids = tokenizer.EncodeWithSpecials(text);
    const auto parser = (*CreateHarmony(tokenizer))->NewParser({});
    std::vector<ChatEvent> events;
    for (const int32_t id : ids) parser->Push(id, events);
    parser->Finish(events);
    for (const ParsedMessage& message : Fold(events).messages)
      for (const std::string* field : {&message.author, &message.channel, &message.recipient,
                                       &message.content_type, &message.text, &message.tool_name}) {
        EXPECT_TRUE(IsValidUtf8(*field)) << text;
      }
  }
}

}  // namespace
}  // namespace rose
