#include "grammar/compiler.h"

#include <gtest/gtest.h>

#include <thread>

#include "grammar/grammar_constraint.h"
#include "grammar/grammars.h"
#include "grammar/reference_bomb.h"

namespace rose {
namespace {

std::string Nested(int depth, const std::string& open, const std::string& inner,
                   const std::string& close) {
  std::string text;
  for (int i = 0; i < depth; ++i) text += open;
  text += inner;
  for (int i = 0; i < depth; ++i) text += close;
  return text;
}

// An object of `count` properties, of which every `required`th is; 0 = none.
std::string Properties(int count, int required = 0) {
  std::string text = R"({"type":"object","properties":{)";
  for (int i = 0; i < count; ++i)
    text += StrCat(i == 0 ? "" : ",", "\"p", i, "\":{\"type\":\"string\"}");
  text += R"(},"required":[)";
  for (int i = 0; required > 0 && i < count; i += required)
    text += StrCat(i == 0 ? "" : ",", "\"p", i, "\"");
  return text + "]}";
}

std::vector<GrammarSource> HostileSources() {
  using Kind = GrammarSource::Kind;
  std::vector<GrammarSource> all;
  const auto schema = [&](std::string text) {
    all.push_back({Kind::kJsonSchema, std::move(text)});
  };
  schema(Nested(10'000, R"({"type":"array","items":)", "{}", "}"));
  schema(Nested(100'000, "[", "", "]"));
  schema(R"({"type":"object","properties":)" + Nested(200, R"({"a":)", "1", "}") + "}");
  schema(R"({"$ref":"#"})");
  schema(R"({"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}})");
  schema(R"({"allOf":[{"$ref":"#"}]})");
  schema(R"({"anyOf":[{"$ref":"#"},{"$ref":"#"}]})");
  schema(Properties(10'000));
  schema(Properties(1'500));
  schema(Properties(1'000));
  std::string objects = R"({"anyOf":[)";
  for (int i = 0; i < 5; ++i) objects += (i == 0 ? "" : ",") + Properties(1'000, 100);
  schema(objects + "]}");
  schema(R"({"type":"array","minItems":1000000000})");
  schema(R"({"type":"array","items":{"type":"array","minItems":100000},"minItems":100000})");
  schema(R"({"type":"string","minLength":1000000000})");
  schema(R"({"type":"string","maxLength":100000000})");
  schema(R"({"type":"string","pattern":"^((a+)+)+$","maxLength":1000000})");
  schema(R"({"type":"string","pattern":"(((((a{1,100}){1,100}){1,100}){1,100}){1,100})"
         R"({1,100}"})");
  schema(R"({"type":"string","pattern":"(.*a.{200}){50}"})");
  schema(R"({"type":"string","pattern":")" + std::string(5'000, '(') + R"("})");
  schema(R"({"type":"string","pattern":")" + Nested(5'000, "(", "a", ")*") + R"("})");
  schema(R"({"type":"string","pattern":")" + Nested(200, "(", "a", ")*") + R"("})");
  std::string refs = R"({"$defs":{"a":{"type":"string"}},"anyOf":[)";
  for (int i = 0; i < 5'000; ++i) refs += StrCat(i == 0 ? "" : ",", R"({"$ref":"#/$defs/a"})");
  schema(refs + "]}");
  schema(ReferenceBomb(R"({"type":"string"})"));
  std::string enums = R"({"enum":[)";
  for (int i = 0; i < 12'000; ++i) enums += StrCat(i == 0 ? "" : ",", "\"value ", i * 7919, "\"");
  schema(enums + "]}");
  std::string product = R"({"allOf":[)";
  for (int i = 0; i < 12; ++i)
    product += StrCat(i == 0 ? "" : ",", R"({"anyOf":[{"type":"object","properties":{"a)", i,
                      R"(":{"minLength":2}}},{"type":"object","properties":{"b)", i,
                      R"(":{"maxLength":9}}},{"type":"object"}]})");
  schema(product + "]}");
  all.push_back({Kind::kRegex, "(a{1,1000}){1,1000}"});
  all.push_back({Kind::kRegex, "((((((a{1,99}){1,99}){1,99}){1,99}){1,99}){1,99}){1,99}"});
  all.push_back({Kind::kRegex, "(.*a.{100}b){20}|(.*b.{100}a){20}"});
  all.push_back({Kind::kRegex, std::string(100'000, '(')});
  all.push_back({Kind::kRegex, Nested(2'000, "(a|", "b", ")+")});
  all.push_back({Kind::kRegex, "[\\p{L}\\p{N}]{1,5000}(\\w|\\d|\\s){1,5000}"});
  all.push_back({Kind::kLark, "start: " + Nested(20'000, "(", "\"a\"", ")")});
  all.push_back({Kind::kLark, "start: start"});
  all.push_back({Kind::kLark, "start: start start | "});
  all.push_back({Kind::kLark, std::string(300 << 10, 'x')});
  return all;
}

// Those that may be compiled are bounded while they are used, too.
TEST(Case099, HostileGrammarsAreRefusedOrBounded) {
  ROSE_NEEDS_GRAMMARS();
  for (const GrammarSource& source : HostileSources()) {
    const auto grammar = Compiler().Compile(source);
    if (!grammar.ok()) {
      EXPECT_EQ(grammar.status().code(), StatusCode::kInvalidArgument)
          << grammar.status().message();
      EXPECT_LT(grammar.status().message().size(), 500u);
      continue;
    }
    const auto matcher = grammar.value()->NewMatcher();
    for (int step = 0; step < 5; ++step) {
      const auto next = matcher->Next();
      if (!next.ok()) break;
      int32_t token = 0;
      while (token < Harmony().vocab() && !matcher->Consume(token)) ++token;
    }
  }
}

// What the library could not follow from the first tokens on is refused before anything is drawn.
TEST(GrammarCompiler, WhatMeetsALimitAtOnceIsRefused) {
  ROSE_NEEDS_GRAMMARS();
  const std::string pattern = R"({"type":"string","pattern":"(.*a.{200}){50}"})";
  for (const std::string& schema :
       {Properties(501), Properties(600), Properties(1'000), Properties(1'000, 600),
        StrCat(R"({"type":"object","properties":{"a":)", Properties(600), R"(},"required":["a"]})"),
        StrCat(R"({"type":"array","items":)", Properties(600), "}"),
        StrCat(R"({"anyOf":[)", Properties(300), ",", Properties(300), "]}"),
        StrCat(R"({"$ref":"#/$defs/a","$defs":{"a":)", Properties(600), "}}"),
        StrCat(R"({"$defs":{"a":)", Properties(200), R"(},"anyOf":[{"$ref":"#/$defs/a"},)",
               Properties(300), "]}"),
        pattern,
        StrCat(R"({"type":"object","properties":{"quite_a_long_name":)", pattern,
               R"(},"required":["quite_a_long_name"]})")}) {
    const auto grammar = Compiler().Compile(JsonSchema(schema));
    ASSERT_FALSE(grammar.ok()) << schema.substr(0, 200);
    EXPECT_EQ(grammar.status().code(), StatusCode::kInvalidArgument);
    EXPECT_TRUE(grammar.status().message().ends_with("split the object") ||
                grammar.status().message().ends_with("make it smaller or simpler"))
        << grammar.status().message();
  }
  const GrammarSource regex{GrammarSource::Kind::kRegex,
                            "[\\p{L}\\p{N}]{1,5000}(\\w|\\d|\\s){1,5000}"};
  EXPECT_FALSE(Compiler().Compile(regex).ok());
}

TEST(GrammarCompiler, AsManyPropertiesAsAreTakenCanBeDrawn) {
  ROSE_NEEDS_GRAMMARS();
  for (const std::string& schema :
       {Properties(480), Properties(1'000, 240), Properties(1'000, 1),
        StrCat(R"({"anyOf":[)", Properties(240), ",", Properties(240), "]}")}) {
    const auto grammar = Compiler().Compile(JsonSchema(schema));
    ASSERT_TRUE(grammar.ok()) << grammar.status().message();
    const auto matcher = grammar.value()->NewMatcher();
    for (const int32_t token : Harmony().Encode(R"({"p0": "x", "p1": ")")) {
      ASSERT_TRUE(matcher->Next().ok());
      ASSERT_TRUE(matcher->Consume(token));
    }
    EXPECT_TRUE(matcher->Next().ok());
  }
}

TEST(GrammarCompiler, WhatIsRememberedIsBoundedInBytes) {
  ROSE_NEEDS_GRAMMARS();
  constexpr int64_t kBytes = 2 << 20;
  auto compiler = GrammarCompiler::Create(
                      Harmony(), {.deadline = std::chrono::minutes(1), .cached_bytes = kBytes})
                      .value();
  const GrammarSource first = JsonSchema(Properties(100));
  const auto kept = compiler->Compile(first).value();
  // Many times its source: that is what counts.
  EXPECT_GT(kept->bytes(), 20 * std::ssize(first.text));
  EXPECT_GE(compiler->cached_bytes(), kept->bytes());
  EXPECT_EQ(compiler->Compile(first).value(), kept);
  for (int i = 0; i < 10; ++i) {
    const auto grammar = compiler->Compile(JsonSchema(Properties(101 + i))).value();
    EXPECT_LE(compiler->cached_bytes(), kBytes);
    EXPECT_GE(compiler->cached_bytes(), grammar->bytes());
  }
  EXPECT_NE(compiler->Compile(first).value(), kept);
  EXPECT_EQ(FateOf(*kept, R"({"p7":"x"})"), Fate::kComplete);
}

// A request that has begun to draw is told what happened, as its own fault.
TEST(GrammarConstraint, ALimitThatIsMetLaterEndsTheRequest) {
  ROSE_NEEDS_GRAMMARS();
  const auto grammar =
      Compiler().Compile({GrammarSource::Kind::kRegex, "x{60}(.*a.{200}){50}"}).value();
  GrammarConstraint constraint(grammar, {});
  const std::vector<int32_t> x = Harmony().Encode("x");
  std::vector<int32_t> output;
  auto allowed = constraint.Allowed(output);
  for (int i = 0; i < 200 && allowed.ok(); ++i) {
    output.push_back(i < 60 ? x.at(0) : Harmony().Encode("a").at(0));
    allowed = constraint.Allowed(output);
  }
  ASSERT_FALSE(allowed.ok());
  EXPECT_TRUE(allowed.status().message().starts_with(kConstraintTooHard))
      << allowed.status().message();
}

TEST(GrammarCompiler, OutcomesAreRememberedAndForgotten) {
  ROSE_NEEDS_GRAMMARS();
  auto compiler =
      GrammarCompiler::Create(Harmony(), {.deadline = std::chrono::minutes(1), .cached = 2})
          .value();
  const auto a = compiler->Compile(JsonSchema(R"({"const":"a"})")).value();
  EXPECT_EQ(compiler->Compile(JsonSchema(R"({"const":"a"})")).value(), a);
  EXPECT_EQ(compiler->Compile(JsonSchema(R"({ "const" : "a" })")).value(), a);
  EXPECT_NE(compiler->Compile({GrammarSource::Kind::kRegex, "a"}).value(), a);
  EXPECT_EQ(compiler->Compile(JsonSchema(R"({"const":"a"})")).value(), a);
  EXPECT_FALSE(compiler->Compile({GrammarSource::Kind::kRegex, "("}).ok());
  EXPECT_EQ(compiler->Compile(JsonSchema(R"({"const":"a"})")).value(), a);
  EXPECT_TRUE(compiler->Compile(JsonSchema(R"({"const":"b"})")).ok());
  EXPECT_TRUE(compiler->Compile(JsonSchema(R"({"const":"c"})")).ok());
  EXPECT_NE(compiler->Compile(JsonSchema(R"({"const":"a"})")).value(), a);
  EXPECT_EQ(FateOf(*a, "\"a\""), Fate::kComplete);  // whoever holds one may go on
}

TEST(GrammarCompiler, CallersOnManyThreadsGetTheSame) {
  ROSE_NEEDS_GRAMMARS();
  auto compiler = GrammarCompiler::Create(Harmony(), {.deadline = std::chrono::minutes(1)}).value();
  std::vector<std::thread> threads;
  std::vector<std::shared_ptr<const Grammar>> got(12);
  for (size_t i = 0; i < got.size(); ++i)
    threads.emplace_back([&, i] {
      got[i] = compiler->Compile(JsonSchema(StrCat("{\"const\":", i % 3, "}"))).value();
    });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], got[i % 3]);
}

TEST(GrammarCompiler, ADeadlineIsKeptAndTheNextCallerIsServed) {
  ROSE_NEEDS_GRAMMARS();
  auto compiler =
      GrammarCompiler::Create(Harmony(), {.deadline = std::chrono::milliseconds(1)}).value();
  const GrammarSource slow = JsonSchema(Properties(1'000, 2));
  const auto refused = compiler->Compile(slow);
  ASSERT_FALSE(refused.ok());
  // What was begun is finished and kept, so that in the end the answer is the grammar.
  while (!compiler->Compile(slow).ok()) std::this_thread::yield();
}

}  // namespace
}  // namespace rose
