// What every chat format does, over all of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>

#include "chat/dialects.h"
#include "chat/parsed_messages.h"
#include "grammar/grammars.h"

namespace rose {
namespace {

class Formats : public FormatTest {
 protected:
  Parsed ParseIds(std::span<const int32_t> ids) {
    const std::vector<ToolSpec> tools = {{.name = "look"}, {.name = "look_up"}};
    const auto format = dialect().Format();
    const auto parser = format->NewParser(tools);
    std::vector<ChatEvent> events;
    for (const int32_t id : ids) parser->Push(id, events);
    parser->Finish(events);
    return Fold(events);
  }
};
INSTANTIATE_FORMATS(Formats);

const std::vector<ModelAnswer>& Answers() {
  static const std::vector<ModelAnswer> answers = {
      {.text = "Hello."},
      {.thoughts = "2+2\n\nis 4", .text = "It is 4.\n\nReally, \u4eca\u5929 \U0001f999."},
      {.thoughts = "look", .calls = {{"", "look", R"({"city": "K\u00f6ln", "n": 1.50})"}}},
      {.text = "I look.", .calls = {{"", "look_up", "{}"}}},
      {.thoughts = "a", .text = "b", .calls = {{"", "look", R"({"a": {"b": ["}", "\""]}})"}}},
  };
  return answers;
}

TEST_P(Formats, WhatIsSaidIsHeard) {
  for (const ModelAnswer& said : Answers()) {
    const Parsed parsed = ParseIds(dialect().Tokens(dialect().say(said)));
    EXPECT_EQ(parsed.reasoning(), said.thoughts);
    EXPECT_EQ(parsed.content(), said.text);
    std::string calls;
    for (const ToolCall& call : said.calls) calls += call.name + "(" + call.arguments + ")";
    EXPECT_EQ(parsed.calls(), calls);
    EXPECT_EQ(parsed.dropped, "");
    for (const ParsedMessage& message : parsed.messages) EXPECT_TRUE(message.complete);
  }
}

TEST_P(Formats, TheStartOfAStreamSaysTheStartOfTheWhole) {
  for (const ModelAnswer& said : Answers()) {
    const std::vector<int32_t> ids = dialect().Tokens(dialect().say(said));
    const Parsed whole = ParseIds(ids);
    for (size_t cut = 0; cut < ids.size(); ++cut) {
      const Parsed part = ParseIds(std::span(ids).first(cut));
      ASSERT_LE(part.messages.size(), whole.messages.size());
      for (size_t i = 0; i < part.messages.size(); ++i) {
        ParsedMessage got = part.messages[i], full = whole.messages[i];
        while (got.text.ends_with("\uFFFD")) got.text.resize(got.text.size() - 3);
        // The line end before a call is none of the text's, which shows with the call.
        if (got.text.ends_with('\n')) got.text.pop_back();
        EXPECT_TRUE(full.text.starts_with(got.text)) << got.text;
        got.text = full.text;
        if (i + 1 == part.messages.size()) got.complete = full.complete;
        EXPECT_EQ(got, full);
      }
    }
  }
}

TEST_P(Formats, AnyTokensAreRead) {
  std::mt19937 random(4);
  const int64_t vocab = dialect().tokenizer.vocab();
  std::vector<int32_t> specials;
  for (int32_t id = 0; id < vocab; ++id)
    if (dialect().tokenizer.IsSpecial(id)) specials.push_back(id);
  for (int round = 0; round < 300; ++round) {
    std::vector<int32_t> ids;
    for (int i = 0; i < 40; ++i)
      ids.push_back(random() % 3 == 0 ? specials[random() % specials.size()]
                                      : static_cast<int32_t>(random() % 1300));
    ids.push_back(-1);
    ids.push_back(static_cast<int32_t>(vocab) + 5);
    ParseIds(ids);  // Fold checks that events nest
  }
}

// The specials of a prompt are those of the same prompt with blank texts.
TEST_P(Formats, TextsNeverBecomeMarkers) {
  std::string markers;
  for (int32_t id = 0; id < dialect().tokenizer.vocab(); ++id)
    if (dialect().tokenizer.IsSpecial(id) && markers.size() < 2000)
      markers += std::string(dialect().tokenizer.Bytes(id)) + " ";
  const auto specials = [&](const std::string& text) {
    ChatRequest request;
    request.tools = {
        {.name = "f",
         .description = "d " + text,
         .parameters = JsonValue(JsonValue::Object{{"description", JsonValue("p " + text)}})}};
    request.messages = {
        {.role = Role::kSystem, .content = "s " + text},
        {.role = Role::kUser, .content = "u " + text},
        {.role = Role::kAssistant,
         .content = "a " + text,
         .reasoning = "r " + text,
         .tool_calls = {{"1", "f", "{\"x\": \"" + text + "\"}"}}},
        {.role = Role::kTool, .content = "t " + text, .tool_name = "f"},
        {.role = Role::kAssistant, .content = "b " + text, .reasoning = "q " + text},
        {.role = Role::kUser, .content = "v " + text}};
    std::vector<int32_t> out;
    const std::vector<int32_t> prompt = dialect().Format()->Render(request).value();
    for (const int32_t id : prompt)
      if (dialect().tokenizer.IsSpecial(id)) out.push_back(id);
    return out;
  };
  EXPECT_EQ(specials(markers), specials("x"));
}

// ---- forms

constexpr std::string_view kPerson =
    R"({"type":"object","properties":{"name":{"type":"string","maxLength":8},)"
    R"("age":{"type":"integer","minimum":0,"maximum":120}},"required":["name","age"]})";

class Forms : public Formats {
 protected:
  std::shared_ptr<const Grammar> Compile(const GrammarSource& source) {
    static std::map<std::string, std::unique_ptr<GrammarCompiler>> compilers;
    auto& compiler = compilers[dialect().name];
    if (!compiler)
      compiler = GrammarCompiler::Create(dialect().tokenizer, {.deadline = std::chrono::minutes(1)})
                     .value();
    return compiler->Compile(source).value();
  }
  OutputRules WithContent() { return {.content = Compile(JsonSchema(kPerson))}; }
  OutputRules WithCall() {
    const auto format = dialect().Format();
    return {.calls = OutputRules::Calls::kRequired,
            .tools = {{"look", Compile(format->ArgumentsSource(JsonSchema(kPerson)))},
                      {"look_up", Compile(format->ArgumentsSource(JsonObjectSource()))}}};
  }

  static std::vector<int32_t> AllowedList(TokenConstraint& constraint,
                                          std::span<const int32_t> output) {
    std::vector<int32_t> list;
    const auto mask = constraint.Allowed(output).value();
    for (size_t word = 0; word < mask.size(); ++word)
      for (uint32_t bits = mask[word]; bits != 0; bits &= bits - 1)
        list.push_back(static_cast<int32_t>(word * 32 + std::countr_zero(bits)));
    return list;
  }
  // Whether every token of the answer is allowed where it stands.
  bool MayBe(const OutputRules& rules, const ModelAnswer& said) {
    const auto format = dialect().Format();
    const auto constraint = format->NewConstraint(rules);
    const std::vector<int32_t> tokens = dialect().Tokens(dialect().say(said));
    for (size_t i = 0; i < tokens.size(); ++i) {
      const auto list = AllowedList(*constraint, std::span(tokens).first(i));
      if (!std::binary_search(list.begin(), list.end(), tokens[i])) return false;
    }
    return true;
  }
};
INSTANTIATE_FORMATS(Forms);

const std::string kBo = R"({"name":"Bo","age":7})";

TEST_P(Forms, AGrammarHoldsForTheContentAlone) {
  ROSE_NEEDS_GRAMMARS();
  const OutputRules rules = WithContent();
  EXPECT_TRUE(MayBe(rules, {.text = kBo}));
  EXPECT_TRUE(MayBe(rules, {.thoughts = "Anything {[ goes.", .text = kBo}));
  EXPECT_FALSE(MayBe(rules, {.text = R"({"name":"Bo"})"}));
  EXPECT_FALSE(MayBe(rules, {.text = "x"}));
  EXPECT_FALSE(MayBe(rules, {.text = R"({"name":"Bo",)"}));
  EXPECT_FALSE(MayBe(rules, {.calls = {{"", "look", kBo}}}));
}

TEST_P(Forms, ARequiredCallIsMade) {
  ROSE_NEEDS_GRAMMARS();
  const OutputRules rules = WithCall();
  EXPECT_TRUE(MayBe(rules, {.calls = {{"", "look", kBo}}}));
  EXPECT_TRUE(MayBe(rules, {.thoughts = "hm", .calls = {{"", "look_up", R"({"q": [1]})"}}}));
  EXPECT_FALSE(MayBe(rules, {.calls = {{"", "look", "{}"}}}));
  EXPECT_FALSE(MayBe(rules, {.calls = {{"", "look_up", "[]"}}}));
  EXPECT_FALSE(MayBe(rules, {.calls = {{"", "other", "{}"}}}));
  EXPECT_FALSE(MayBe(rules, {.text = "No."}));
  EXPECT_FALSE(MayBe(rules, {.text = "I look.", .calls = {{"", "look", kBo}}}));
  EXPECT_EQ(MayBe(rules, {.calls = {{"", "look", kBo}, {"", "look_up", "{}"}}}),
            dialect().says_many_calls);
}

TEST_P(Forms, FreeCallsAreOfferedAndStrictOnesFit) {
  ROSE_NEEDS_GRAMMARS();
  OutputRules rules{.tools = {WithCall().tools[0], {"say", nullptr}}};
  EXPECT_TRUE(MayBe(rules, {.text = "Hello."}));
  EXPECT_TRUE(MayBe(rules, {.thoughts = "a", .text = "I look.", .calls = {{"", "look", kBo}}}));
  EXPECT_TRUE(MayBe(rules, {.calls = {{"", "say", "no json"}}}));
  EXPECT_FALSE(MayBe(rules, {.calls = {{"", "look", "no"}}}));
  rules.calls = OutputRules::Calls::kForbidden;
  EXPECT_TRUE(MayBe(rules, {.text = "Hello."}));
  EXPECT_FALSE(MayBe(rules, {.calls = {{"", "say", "{}"}}}));
}

TEST_P(Forms, ThoughtsEndWithTheirBudget) {
  const OutputRules rules{.calls = OutputRules::Calls::kForbidden, .thinking_budget = 12};
  EXPECT_TRUE(MayBe(rules, {.thoughts = "abc", .text = "any length of text, as it were"}));
  EXPECT_FALSE(MayBe(rules, {.thoughts = "q!w?e.r,t;y:u(i)o[p]", .text = "x"}));
}

TEST_P(Forms, ClosedThoughtsStayClosed) {
  const OutputRules rules{.calls = OutputRules::Calls::kForbidden, .may_think = false};
  EXPECT_TRUE(MayBe(rules, {.text = "Hello."}));
  EXPECT_EQ(MayBe(rules, {.thoughts = "a", .text = "Hello."}),
            !dialect().Format()->may_skip_thoughts());
}

TEST_P(Forms, RandomAnswersParseAndFit) {
  ROSE_NEEDS_GRAMMARS();
  std::mt19937 random(11);
  const auto format = dialect().Format();
  const std::vector<int32_t>& stops = format->stop_ids();
  int whole = 0;
  for (int round = 0; round < 30; ++round) {
    const bool call = round % 2 == 0;
    const auto constraint = format->NewConstraint(call ? WithCall() : WithContent());
    std::vector<int32_t> output;
    while (output.size() < 400) {
      const std::vector<int32_t> allowed = AllowedList(*constraint, output);
      ASSERT_FALSE(allowed.empty()) << dialect().tokenizer.Decode(output);
      int32_t token = allowed[random() % allowed.size()];
      // Markers are drawn often, so that texts end.
      for (const int32_t id : allowed)
        if (dialect().tokenizer.IsSpecial(id) && random() % 4 == 0) token = id;
      output.push_back(token);
      if (std::ranges::find(stops, token) != stops.end()) break;
    }
    const Parsed parsed = ParseIds(output);
    EXPECT_EQ(parsed.dropped, "");
    if (std::ranges::find(stops, output.back()) == stops.end()) continue;
    ++whole;
    EXPECT_EQ(parsed.calls().empty(), !call) << dialect().tokenizer.Decode(output);
    for (const ParsedMessage& message : parsed.messages) {
      const bool is_thought = message.target == ChatEvent::Target::kReasoning;
      EXPECT_TRUE(is_thought || ParseJson(message.text).ok()) << message.text;
    }
  }
  EXPECT_GT(whole, 10);
}

TEST_P(Forms, MasksArePureFunctionsOfTheOutput) {
  ROSE_NEEDS_GRAMMARS();
  std::mt19937 random(13);
  const auto format = dialect().Format();
  for (const OutputRules& rules : {WithContent(), WithCall()}) {
    const auto wandering = format->NewConstraint(rules);
    const std::string text =
        dialect().say(rules.content ? ModelAnswer{.thoughts = "so", .text = kBo}
                                    : ModelAnswer{.thoughts = "so", .calls = {{"", "look", kBo}}});
    const std::vector<int32_t> output = dialect().Tokens(text);
    for (int ask = 0; ask < 60; ++ask) {
      std::vector<int32_t> asked(output.begin(), output.begin() + random() % (output.size() + 1));
      // Half of them go astray, as a draft does.
      if (ask % 2 == 0)
        for (const int32_t token : {90, output[0], 17}) asked.push_back(token);
      const auto fresh = format->NewConstraint(rules);
      EXPECT_EQ(AllowedList(*wandering, asked), AllowedList(*fresh, asked));
    }
  }
}

}  // namespace
}  // namespace rose
