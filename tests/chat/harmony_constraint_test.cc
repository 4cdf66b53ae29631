#include "chat/harmony_constraint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>

#include "chat/harmony.h"
#include "chat/parsed_messages.h"
#include "grammar/grammars.h"

namespace rose {
namespace {

constexpr int32_t kReturn = 200002, kChannel = 200005, kStart = 200006, kEnd = 200007,
                  kMessage = 200008, kCall = 200012;

const ChatFormat& Format() {
  static const std::unique_ptr<ChatFormat> format = CreateHarmony(Harmony()).value();
  return *format;
}

std::vector<int32_t> Tokens(std::string_view text) {
  return Harmony().EncodeWithSpecials(text);
}

std::shared_ptr<const Grammar> Schema(std::string_view text) {
  return Compiler().Compile(JsonSchema(text)).value();
}

constexpr std::string_view kPerson =
    R"({"type":"object","properties":{"name":{"type":"string","maxLength":8},)"
    R"("age":{"type":"integer","minimum":0,"maximum":120}},"required":["name","age"]})";

std::vector<int32_t> AllowedList(TokenConstraint& constraint, std::span<const int32_t> output) {
  std::vector<int32_t> list;
  const auto mask = constraint.Allowed(output).value();
  for (size_t word = 0; word < mask.size(); ++word)
    for (uint32_t bits = mask[word]; bits != 0; bits &= bits - 1)
      list.push_back(static_cast<int32_t>(word * 32 + std::countr_zero(bits)));
  return list;
}

// Whether every token of `text` is allowed where it stands.
bool MayBe(const OutputRules& rules, std::string_view text) {
  const auto constraint = Format().NewConstraint(rules);
  const std::vector<int32_t> tokens = Tokens(text);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto list = AllowedList(*constraint, std::span(tokens).first(i));
    if (!std::binary_search(list.begin(), list.end(), tokens[i])) return false;
  }
  return true;
}

const OutputRules& WithContent() {
  static const OutputRules rules{.content = Schema(kPerson)};
  return rules;
}

const OutputRules& WithCall() {
  static const OutputRules rules{
      .calls = OutputRules::Calls::kRequired,
      .tools = {{"look", Schema(kPerson)},
                {"look_up", Compiler().Compile(JsonObjectSource()).value()}}};
  return rules;
}

// Case 43: thoughts are free; the ids after them are a header's; then the grammar.
TEST(Case043, TheGrammarIsOnInsideTheFinalMessageAlone) {
  ROSE_NEEDS_GRAMMARS();
  EXPECT_TRUE(MayBe(WithContent(),
                    "<|channel|>analysis<|message|>Anything {[ goes.<|end|><|start|>assistant"
                    "<|channel|>final<|message|>{\"name\":\"Bo\",\"age\":7}<|return|>"));
  EXPECT_TRUE(
      MayBe(WithContent(),
            "<|channel|>final <|constrain|>json<|message|>{\"name\":\"Bo\",\"age\":7}<|return|>"));
  const auto constraint = Format().NewConstraint(WithContent());
  const std::vector<int32_t> begin = {kChannel};
  EXPECT_EQ(AllowedList(*constraint, {}), begin);
  std::vector<int32_t> thoughts = Tokens("<|channel|>analysis<|message|>");
  const std::vector<int32_t> free = AllowedList(*constraint, thoughts);
  EXPECT_EQ(free.size(), 199'998u + 1);  // all text, and <|end|>
  EXPECT_TRUE(std::binary_search(free.begin(), free.end(), kEnd));
  thoughts.push_back(kEnd);
  EXPECT_EQ(AllowedList(*constraint, thoughts), std::vector<int32_t>{kStart});
  thoughts.push_back(kStart);
  EXPECT_EQ(AllowedList(*constraint, thoughts), Tokens("assistant"));
  for (const int32_t token : Tokens("assistant<|channel|>")) thoughts.push_back(token);
  EXPECT_EQ(AllowedList(*constraint, thoughts), Tokens("final"));
}

TEST(HarmonyConstraint, TheContentEndsWhereTheGrammarSaysSo) {
  ROSE_NEEDS_GRAMMARS();
  const std::string final = "<|channel|>final<|message|>";
  EXPECT_FALSE(MayBe(WithContent(), final + "{\"name\":\"Bo\"}"));
  EXPECT_FALSE(MayBe(WithContent(), final + "{\"name\":\"Bo\",<|return|>"));
  EXPECT_FALSE(MayBe(WithContent(), final + "{\"name\":\"Bo\",\"age\":7}<|end|>"));
  EXPECT_FALSE(MayBe(WithContent(), final + "{\"name\":\"Bo\",\"age\":7}<|call|>"));
  EXPECT_FALSE(MayBe(WithContent(), "<|return|>"));
  EXPECT_FALSE(MayBe(WithContent(), "<|channel|>analysis<|message|>x<|return|>"));
  EXPECT_FALSE(MayBe(WithContent(), "<|channel|>analysis<|message|>x<|channel|>"));
  EXPECT_FALSE(MayBe(WithContent(), "<|channel|>commentary<|message|>"));  // a preamble is content
  EXPECT_FALSE(MayBe(WithContent(), "<|channel|>commentary to=functions.look"));
  EXPECT_FALSE(
      MayBe(WithContent(),
            "<|channel|>analysis<|message|>x<|end|><|start|>assistant<|channel|>analysis"));
  // After the end everything may come: nobody asks for it.
  const auto constraint = Format().NewConstraint(WithContent());
  EXPECT_TRUE(
      constraint->Allowed(Tokens(final + "{\"name\":\"Bo\",\"age\":7}<|return|>")).value().empty());
}

// Case 48: a call that is required comes, in every form that the model writes.
TEST(Case048, ARequiredCallIsMade) {
  ROSE_NEEDS_GRAMMARS();
  const std::string body = "<|message|>{\"name\":\"Bo\",\"age\":7}<|call|>";
  for (const char* header :
       {"<|channel|>commentary to=functions.look <|constrain|>json",
        "<|channel|>commentary to=functions.look json", "<|channel|>commentary to=functions.look",
        " to=functions.look<|channel|>commentary <|constrain|>json",
        " to=functions.look<|channel|>commentary"})
    EXPECT_TRUE(MayBe(WithCall(), header + body)) << header;
  EXPECT_TRUE(MayBe(WithCall(),
                    "<|channel|>analysis<|message|>x<|end|><|start|>assistant to="
                    "functions.look_up<|channel|>commentary<|message|>{\"q\":1}<|call|>"));
  EXPECT_FALSE(MayBe(WithCall(), "<|channel|>final"));
  EXPECT_FALSE(MayBe(WithCall(), "<|channel|>commentary<|message|>"));
  EXPECT_FALSE(MayBe(WithCall(), "<|channel|>commentary to=functions.other"));
  EXPECT_FALSE(MayBe(WithCall(), "<|channel|>commentary to=functions.look<|message|>{}"));
  EXPECT_FALSE(MayBe(WithCall(),
                     "<|channel|>commentary to=functions.look<|message|>"
                     "{\"name\":\"Bo\",\"age\":7}<|return|>"));
}

TEST(HarmonyConstraint, FreeCallsAreOfferedAndStrictOnesFit) {
  ROSE_NEEDS_GRAMMARS();
  const OutputRules rules{.tools = {{"look", Schema(kPerson)}, {"say", nullptr}}};
  EXPECT_TRUE(MayBe(rules, "<|channel|>final<|message|>Hello.<|return|>"));
  EXPECT_TRUE(MayBe(rules,
                    "<|channel|>commentary<|message|>Plan: look.<|end|><|start|>assistant"
                    "<|channel|>commentary to=functions.look <|constrain|>json<|message|>"
                    "{\"name\":\"Bo\",\"age\":7}<|call|>"));
  EXPECT_TRUE(MayBe(rules, "<|channel|>commentary to=functions.say<|message|>no json<|call|>"));
  EXPECT_FALSE(MayBe(rules, "<|channel|>commentary to=functions.look<|message|>no"));
  EXPECT_FALSE(MayBe(rules, "<|channel|>commentary to=functions.none"));

  const OutputRules both{.content = Schema(kPerson), .tools = {{"say", nullptr}}};
  EXPECT_TRUE(MayBe(both, "<|channel|>commentary to=functions.say<|message|>no json<|call|>"));
  EXPECT_FALSE(MayBe(both, "<|channel|>commentary<|message|>"));
  const OutputRules none{.calls = OutputRules::Calls::kForbidden, .tools = {{"say", nullptr}}};
  EXPECT_TRUE(MayBe(none, "<|channel|>final<|message|>Hello.<|return|>"));
  EXPECT_FALSE(MayBe(none, "<|channel|>commentary to=functions.say"));
}

// An answer drawn at random under the mask; thoughts and texts end soon. Cut at `limit`.
std::vector<int32_t> Draw(TokenConstraint& constraint, std::mt19937& random, size_t limit) {
  std::vector<int32_t> output;
  while (output.size() < limit) {
    const std::vector<int32_t> allowed = AllowedList(constraint, output);
    EXPECT_FALSE(allowed.empty()) << Harmony().Decode(output);
    if (allowed.empty()) break;
    int32_t token = allowed[random() % allowed.size()];
    for (const int32_t end : {kEnd, kReturn, kCall})
      if (random() % 4 == 0 && std::binary_search(allowed.begin(), allowed.end(), end)) token = end;
    output.push_back(token);
    if (token == kReturn || token == kCall) break;
  }
  return output;
}

TEST(HarmonyConstraint, ThoughtsEndWithTheirBudget) {
  const OutputRules rules{.calls = OutputRules::Calls::kForbidden, .thinking_budget = 3};
  const auto constraint = Format().NewConstraint(rules);
  std::vector<int32_t> output = Tokens("<|channel|>analysis<|message|>");
  const int32_t word = Tokens("a")[0];
  const auto only = [](int32_t token) { return std::vector<int32_t>{token}; };
  for (int i = 0; i < 3; ++i) {
    EXPECT_GT(AllowedList(*constraint, output).size(), 100000u) << i;
    output.push_back(word);
  }
  EXPECT_EQ(AllowedList(*constraint, output), only(kEnd));
  // A draft that goes on is none of the output: the same again.
  output.push_back(word);
  constraint->Allowed(output).value();
  output.pop_back();
  EXPECT_EQ(AllowedList(*constraint, output), only(kEnd));
  output.push_back(kEnd);
  EXPECT_EQ(AllowedList(*constraint, output), only(kStart));
  // All thoughts of an answer count together: none is left for those behind a preamble.
  const OutputRules free{.thinking_budget = 2};
  EXPECT_TRUE(MayBe(free,
                    "<|channel|>analysis<|message|>a<|end|><|start|>assistant"
                    "<|channel|>commentary<|message|>so<|end|><|start|>assistant"
                    "<|channel|>analysis<|message|>a<|end|>"));
  EXPECT_FALSE(MayBe(free,
                     "<|channel|>analysis<|message|>a<|end|><|start|>assistant"
                     "<|channel|>commentary<|message|>so<|end|><|start|>assistant"
                     "<|channel|>analysis<|message|>aaa b<|end|>"));
  EXPECT_TRUE(MayBe(OutputRules{.thinking_budget = 0},
                    "<|channel|>analysis<|message|><|end|><|start|>assistant"
                    "<|channel|>final<|message|>any length of text<|return|>"));
}

TEST(HarmonyConstraint, RandomAnswersParseAndFit) {
  ROSE_NEEDS_GRAMMARS();
  std::mt19937 random(11);
  const auto person = Schema(kPerson);
  for (int round = 0; round < 40; ++round) {
    const bool call = round % 2 == 0;
    const auto constraint = Format().NewConstraint(call ? WithCall() : WithContent());
    const std::vector<int32_t> output = Draw(*constraint, random, 400);
    const bool whole = output.back() == kReturn || output.back() == kCall;
    const std::vector<ToolSpec> tools = {{.name = "look"}, {.name = "look_up"}};
    const auto parser = Format().NewParser(tools);
    std::vector<ChatEvent> events;
    for (const int32_t token : output) parser->Push(token, events);
    parser->Finish(events);
    std::string text, tool;
    for (const ChatEvent& event : events) {
      EXPECT_NE(event.kind, ChatEvent::Kind::kDropped) << event.text;
      if (event.kind == ChatEvent::Kind::kBegin) tool = event.tool_name;
      if (event.target != ChatEvent::Target::kReasoning) text += event.text;
    }
    if (whole) {
      ASSERT_FALSE(events.empty());
      EXPECT_EQ(events.back().target,
                call ? ChatEvent::Target::kToolCall : ChatEvent::Target::kContent);
      EXPECT_TRUE(ParseJson(text).ok()) << text;
    }
    if (tool != "look_up" && !text.ends_with("\xef\xbf\xbd")) {
      EXPECT_NE(FateOf(*person, text), Fate::kRefused) << text;
      EXPECT_TRUE(!whole || FateOf(*person, text) == Fate::kComplete) << text;
    }
  }
}

TEST(HarmonyConstraint, MasksArePureFunctionsOfTheOutput) {
  ROSE_NEEDS_GRAMMARS();
  std::mt19937 random(13);
  for (const OutputRules* rules : {&WithContent(), &WithCall()}) {
    const auto wandering = Format().NewConstraint(*rules);
    for (int round = 0; round < 6; ++round) {
      const auto constraint = Format().NewConstraint(*rules);
      std::vector<int32_t> output = Draw(*constraint, random, 150);
      for (int ask = 0; ask < 8; ++ask) {
        std::vector<int32_t> asked(output.begin(), output.begin() + random() % (output.size() + 1));
        // Half of them go astray, as a draft does.
        if (ask % 2 == 0)
          for (const int32_t token : {5000, kMessage, 17}) asked.push_back(token);
        const auto fresh = Format().NewConstraint(*rules);
        EXPECT_EQ(AllowedList(*wandering, asked), AllowedList(*fresh, asked));
      }
    }
  }
}

}  // namespace
}  // namespace rose
