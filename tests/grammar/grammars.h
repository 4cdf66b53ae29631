// The compiler over the built-in vocabulary, made once for all tests of a process.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "grammar/compiler.h"
#include "tokenizer/harmony.h"

namespace rose {

// In a build without the grammar library these tests have nothing to test.
#define ROSE_NEEDS_GRAMMARS() \
  if (!HasGrammars()) GTEST_SKIP() << "built without llguidance"

inline GrammarCompiler& Compiler() {
  static const std::unique_ptr<GrammarCompiler> compiler =
      GrammarCompiler::Create(Harmony(), {.deadline = std::chrono::minutes(1)}).value();
  return *compiler;
}

inline GrammarSource JsonSchema(std::string_view text) {
  return {GrammarSource::Kind::kJsonSchema, std::string(text)};
}

// What becomes of a text under a grammar.
enum class Fate { kRefused, kPrefix, kComplete };

inline Fate FateOf(const Grammar& grammar, std::string_view text) {
  const auto matcher = grammar.NewMatcher();
  for (const int32_t token : Harmony().Encode(text))
    if (!matcher->Consume(token)) return Fate::kRefused;
  return matcher->Next().value().accepting ? Fate::kComplete : Fate::kPrefix;
}

inline Fate FateOf(const GrammarSource& source, std::string_view text) {
  auto grammar = Compiler().Compile(source);
  EXPECT_TRUE(grammar.ok()) << source.text << ": " << grammar.status().message();
  return grammar.ok() ? FateOf(*grammar.value(), text) : Fate::kRefused;
}

}  // namespace rose
