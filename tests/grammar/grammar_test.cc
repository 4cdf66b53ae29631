#include "grammar/grammar.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "grammar/grammar_constraint.h"
#include "grammar/grammars.h"

namespace rose {
namespace {

constexpr Fate kRefused = Fate::kRefused, kPrefix = Fate::kPrefix, kComplete = Fate::kComplete;

bool Has(std::span<const uint32_t> mask, int32_t token) {
  return (mask[token / 32] >> (token % 32)) & 1;
}

TEST(Grammar, SchemaDecidesWhatATextMayBe) {
  ROSE_NEEDS_GRAMMARS();
  const GrammarSource source =
      JsonSchema(R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"enum":["x","y"]}},)"
                 R"("required":["a"]})");
  EXPECT_EQ(FateOf(source, R"({"a":1,"b":"x"})"), kComplete);
  EXPECT_EQ(FateOf(source, R"({"a": 12})"), kComplete);
  EXPECT_EQ(FateOf(source, "{\n  \"a\": 12\n}"), kComplete);
  EXPECT_EQ(FateOf(source, R"({"a":1,"b":)"), kPrefix);
  EXPECT_EQ(FateOf(source, R"({"a":"1")"), kRefused);
  EXPECT_EQ(FateOf(source, R"({"b":"x")"), kRefused);    // properties keep their order
  EXPECT_EQ(FateOf(source, R"({"a":1,"c")"), kRefused);  // none but those listed
  EXPECT_EQ(FateOf(source, R"({"a":1}})"), kRefused);
}

TEST(Case047, WhitespaceIsBounded) {
  ROSE_NEEDS_GRAMMARS();
  const GrammarSource source = JsonObjectSource();
  EXPECT_EQ(FateOf(source, "{\n" + std::string(32, ' ') + R"("a":1})"), kComplete);
  EXPECT_EQ(FateOf(source, "{\n" + std::string(33, ' ')), kRefused);
  EXPECT_EQ(FateOf(source, "{\n\n"), kRefused);
  EXPECT_EQ(FateOf(source, "{  "), kRefused);

  // A model that always prefers blanks still has to end.
  const auto grammar = Compiler().Compile(
      JsonSchema(R"({"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"]})"));
  const auto matcher = grammar.value()->NewMatcher();
  int64_t tokens = 0;
  for (;; ++tokens) {
    const auto step = matcher->Next().value();
    if (step.accepting) break;
    int32_t best = -1;
    for (int32_t id = 0; id < Harmony().vocab(); ++id) {
      if (!Has(step.mask, id)) continue;
      const std::string_view bytes = Harmony().Bytes(id);
      if (best < 0 || (bytes.find_first_not_of(" \n\t") == bytes.npos && bytes.size() == 1))
        best = id;
    }
    ASSERT_TRUE(matcher->Consume(best));
    ASSERT_LT(tokens, 300);
  }
}

// Many zeros and a one are below the bound, but not to a reader that rounds to a double.
TEST(Grammar, NumbersStayClearOfAnExcludedBound) {
  ROSE_NEEDS_GRAMMARS();
  const auto below = JsonSchema(R"({"type":"number","minimum":-41,"exclusiveMaximum":-39})");
  for (const char* text : {"-39", "-39.0", "-39.00000000000000000000001"})
    EXPECT_NE(FateOf(below, text), kComplete) << text;
  for (const char* text : {"-41", "-39.5", "-39.00001", "-39.000001", "-40.000000000000000000001"})
    EXPECT_EQ(FateOf(below, text), kComplete) << text;
}

TEST(Grammar, TheClientCannotLoosenTheWhitespace) {
  ROSE_NEEDS_GRAMMARS();
  const GrammarSource source =
      JsonSchema(R"({"type":"object","x-guidance":{"whitespace_pattern":"[ ]*"}})");
  EXPECT_EQ(FateOf(source, "{     "), kRefused);
}

TEST(Case045, PatternsAreEnforcedOrRefused) {
  ROSE_NEEDS_GRAMMARS();
  EXPECT_EQ(FateOf(JsonSchema(R"({"type":"string","pattern":"^a[0-9]{2}$"})"), R"("a12")"),
            kComplete);
  EXPECT_EQ(FateOf(JsonSchema(R"({"type":"string","pattern":"^a[0-9]{2}$"})"), R"("a1")"),
            kRefused);
  EXPECT_EQ(FateOf(JsonSchema(R"({"type":"string","pattern":"^\\p{L}+$"})"), "\"\u00e9\""),
            kComplete);
  for (const char* pattern : {R"("(?=a)b")", R"("(a)\\1")", R"("(?<!a)b")", R"("a{")", R"("[")"}) {
    const auto grammar =
        Compiler().Compile(JsonSchema(StrCat(R"({"type":"string","pattern":)", pattern, "}")));
    EXPECT_FALSE(grammar.ok()) << pattern;
    EXPECT_EQ(grammar.status().code(), StatusCode::kInvalidArgument);
  }
  // An escaped character that needs no escape is what it is, or is refused.
  const auto escaped = Compiler().Compile(JsonSchema(R"({"type":"string","pattern":"^a\\!$"})"));
  if (escaped.ok()) {
    EXPECT_EQ(FateOf(*escaped.value(), R"("a!")"), kComplete);
    EXPECT_EQ(FateOf(*escaped.value(), R"("ab")"), kRefused);
  }
}

TEST(Grammar, WhatCannotBeEnforcedIsRefused) {
  ROSE_NEEDS_GRAMMARS();
  for (const char* schema :
       {R"({"type":"array","items":{"type":"string"},"uniqueItems":true})",
        R"({"not":{"type":"string"}})", R"({"if":{"type":"string"},"then":{"minLength":2}})",
        R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", R"({"type":"text"})", "false",
        R"({"$ref":"http://example.com/schema"})", R"({"$ref":"#/$defs/none"})", "[]", "{", ""}) {
    const auto grammar = Compiler().Compile(JsonSchema(schema));
    EXPECT_FALSE(grammar.ok()) << schema;
    EXPECT_EQ(grammar.status().code(), StatusCode::kInvalidArgument) << schema;
    EXPECT_FALSE(grammar.status().message().empty());
  }
}

TEST(Grammar, BranchesOfOneOfMayBeReferences) {
  ROSE_NEEDS_GRAMMARS();
  const GrammarSource source = JsonSchema(
      R"({"oneOf":[{"$ref":"#/$defs/cat"},{"$ref":"#/$defs/dog"}],"$defs":{)"
      R"("cat":{"type":"object","properties":{"kind":{"const":"cat"},"lives":{"type":"integer"}},)"
      R"("required":["kind","lives"],"additionalProperties":false},)"
      R"("dog":{"type":"object","properties":{"kind":{"const":"dog"}},"required":["kind"],)"
      R"("additionalProperties":false}}})");
  EXPECT_EQ(FateOf(source, R"({"kind":"cat","lives":9})"), kComplete);
  EXPECT_EQ(FateOf(source, R"({"kind":"dog"})"), kComplete);
  EXPECT_EQ(FateOf(source, R"({"kind":"cow")"), kRefused);
}

TEST(Grammar, CombinedSchemasKeepOpenProperties) {
  ROSE_NEEDS_GRAMMARS();
  const GrammarSource source = JsonSchema(
      R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},)"
      R"({"type":"object","properties":{"b":{"type":"integer"}},"required":["b"]}]})");
  EXPECT_EQ(FateOf(source, R"({"a":1,"b":2})"), kComplete);
  EXPECT_EQ(FateOf(source, R"({"a":1})"), kRefused);
}

TEST(Grammar, RecursiveSchemas) {
  ROSE_NEEDS_GRAMMARS();
  const GrammarSource source =
      JsonSchema(R"({"type":"object","properties":{"v":{"type":"integer"},"next":{"$ref":"#"}},)"
                 R"("required":["v"]})");
  EXPECT_EQ(FateOf(source, R"({"v":1,"next":{"v":2,"next":{"v":3}}})"), kComplete);
}

TEST(Grammar, RegexChoiceAndGrammarTexts) {
  ROSE_NEEDS_GRAMMARS();
  const GrammarSource regex{GrammarSource::Kind::kRegex, "[a-c]+-[0-9]{3}"};
  EXPECT_EQ(FateOf(regex, "abc-123"), kComplete);
  EXPECT_EQ(FateOf(regex, "abc-12"), kPrefix);
  EXPECT_EQ(FateOf(regex, "d"), kRefused);

  const std::vector<std::string> texts = {"yes", "no (really?)", "a/b\\c|d", "\u00fc\n.*"};
  const GrammarSource choice = ChoiceSource(texts).value();
  for (const std::string& text : texts) EXPECT_EQ(FateOf(choice, text), kComplete) << text;
  EXPECT_EQ(FateOf(choice, "ye"), kPrefix);
  EXPECT_EQ(FateOf(choice, "no (reall)"), kRefused);
  EXPECT_FALSE(ChoiceSource({}).ok());
  EXPECT_FALSE(ChoiceSource(std::vector<std::string>{""}).ok());

  const GrammarSource lark =
      GrammarTextSource("start: \"a\" item+\nitem: \",\" /[0-9]+/\n").value();
  EXPECT_EQ(FateOf(lark, "a,1,22"), kComplete);
  EXPECT_EQ(FateOf(lark, "a1"), kRefused);
}

TEST(Grammar, GbnfIsUnderstood) {
  ROSE_NEEDS_GRAMMARS();
  const GrammarSource flat =
      GrammarTextSource(
          "# a greeting\nroot ::= greet \" \" [A-Z] [a-z]{1,8} [^a-z\\]/] # end\n"
          "greet ::= \"hi\" | (\"hel\"\n  \"lo\")")
          .value();
  EXPECT_EQ(FateOf(flat, "hello Bob!"), kComplete);
  EXPECT_EQ(FateOf(flat, "hi Bo"), kPrefix);
  EXPECT_EQ(FateOf(flat, "hi Bo/"), kRefused);
  EXPECT_EQ(FateOf(flat, "ho"), kRefused);

  const GrammarSource nested = GrammarTextSource(
                                   "root ::= list\nlist ::= \"(\" (item (\",\" item)*)? \")\"\n"
                                   "item ::= list | num\nnum ::= [0-9]+")
                                   .value();
  EXPECT_EQ(FateOf(nested, "(1,(2,()),33)"), kComplete);
  EXPECT_EQ(FateOf(nested, "(1,(2"), kPrefix);
  EXPECT_EQ(FateOf(nested, "())"), kRefused);

  for (const char* wrong :
       {"root ::= nothing", "a ::= \"x\"", "root ::= \"x", "root ::= [a", "root ::= \"a\"{x}",
        "::= \"a\"", "root ::= \"a\" root ::= \"b\"", "root ::= \"\\q\"", "root ::= $"})
    EXPECT_FALSE(GrammarTextSource(wrong).ok()) << wrong;
}

TEST(Grammar, SpecialTokensAreNeverText) {
  ROSE_NEEDS_GRAMMARS();
  for (const char* text : {"start: /(?s:.*)/", "start: \"a\" <[200002]> | \"a\" /.*/"}) {
    const auto grammar = Compiler().Compile({GrammarSource::Kind::kLark, text});
    if (!grammar.ok()) continue;
    const auto matcher = grammar.value()->NewMatcher();
    ASSERT_TRUE(matcher->Consume(Harmony().Encode("a")[0]));
    const auto step = matcher->Next().value();
    for (int32_t id = 0; id < Harmony().vocab(); ++id)
      if (Harmony().IsSpecial(id)) {
        ASSERT_FALSE(Has(step.mask, id)) << id;
      }
    EXPECT_FALSE(matcher->Consume(200002));
    EXPECT_FALSE(matcher->Consume(-1));
    EXPECT_FALSE(matcher->Consume(201088));
  }
}

// Draws tokens under the mask until the text must end, or `limit` is reached.
std::vector<int32_t> Draw(GrammarConstraint& constraint, std::mt19937& random, int64_t limit,
                          int32_t end) {
  std::vector<int32_t> output;
  while (static_cast<int64_t>(output.size()) < limit) {
    const auto mask = constraint.Allowed(output).value();
    std::vector<int32_t> allowed;
    for (size_t word = 0; word < mask.size(); ++word)
      for (uint32_t bits = mask[word]; bits != 0; bits &= bits - 1)
        allowed.push_back(static_cast<int32_t>(word * 32 + std::countr_zero(bits)));
    // Rarely more of a text that may end, so that it does end.
    if (Has(mask, end) && (allowed.size() == 1 || random() % 2 == 0)) return output;
    std::erase(allowed, end);
    output.push_back(allowed.at(random() % allowed.size()));
  }
  return output;
}

TEST(GrammarConstraint, RandomTextsFitAndMasksArePureFunctionsOfThem) {
  ROSE_NEEDS_GRAMMARS();
  const auto grammar =
      Compiler()
          .Compile(JsonSchema(
              R"({"type":"object","properties":{"name":{"type":"string","maxLength":12},)"
              R"("tags":{"type":"array","items":{"enum":["red","green"]},"maxItems":4},)"
              R"("size":{"type":"number","minimum":0,"maximum":9.5}},"required":["name","tags"]})"))
          .value();
  constexpr int32_t kEnd = 200002;
  std::mt19937 random(7);
  GrammarConstraint wandering(grammar, {kEnd});
  for (int round = 0; round < 12; ++round) {
    GrammarConstraint constraint(grammar, {kEnd});
    const std::vector<int32_t> output = Draw(constraint, random, 120, kEnd);
    const std::string text = Harmony().Decode(output);
    EXPECT_NE(FateOf(*grammar, text), kRefused) << text;
    // The same constraint asked about any prefix of any text says what a new one does.
    for (int ask = 0; ask < 6; ++ask) {
      const std::span<const int32_t> prefix(output.data(), random() % (output.size() + 1));
      GrammarConstraint fresh(grammar, {kEnd});
      const auto expected = fresh.Allowed(prefix).value();
      const auto got = wandering.Allowed(prefix).value();
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), got.begin(), got.end()));
    }
    // A draft that breaks the rules is no harm.
    std::vector<int32_t> broken(output.begin(), output.begin() + output.size() / 2);
    broken.insert(broken.end(), {kEnd + 1, 5, 6});
    EXPECT_TRUE(wandering.Allowed(broken).value().empty());
  }
}

}  // namespace
}  // namespace rose
