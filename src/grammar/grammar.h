// Grammars: what a text may be (a JSON schema, a regular expression, a Lark grammar), turned into
// the tokens that may come next. Format-free: special tokens are never part of a text.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace rose {

struct GrammarSource {
  enum class Kind {
    kJsonSchema,  // text: a JSON Schema
    kRegex,       // text: a regular expression, in Rust's syntax; the whole text must match
    kLark,        // text: a grammar in llguidance's variant of Lark
  };
  Kind kind = Kind::kJsonSchema;
  std::string text;
  // kJsonSchema: fixed texts that stand before and after the value.
  std::string before, after;

  bool operator==(const GrammarSource&) const = default;
};

// Any JSON object.
GrammarSource JsonObjectSource();
// One of the texts, byte for byte. kInvalidArgument for none, or for an empty one.
Result<GrammarSource> ChoiceSource(std::span<const std::string> choices);
// A grammar as clients send it: Lark, or GBNF (llama.cpp's, known by its "::="), which is
// translated.
Result<GrammarSource> GrammarTextSource(std::string_view text);

// Follows one text, token by token. One thread at a time.
class GrammarMatcher {
 public:
  ~GrammarMatcher();
  GrammarMatcher(const GrammarMatcher&) = delete;
  GrammarMatcher& operator=(const GrammarMatcher&) = delete;

  struct Step {
    // Bit i % 32 of word i / 32: token i may follow. All zero if the text is complete and cannot go
    // on.
    std::span<const uint32_t> mask;
    bool accepting = false;  // the text may end here
  };
  // What may follow; valid until the next call. kInvalidArgument says which limit was met, or that
  // there is no way on.
  Result<Step> Next();
  // False if the token may not follow; then nothing has changed, or the matcher is broken.
  bool Consume(int32_t token);
  // It has run into a limit of the library, and is of no use any more.
  bool broken() const;
  // Takes the last `tokens` consumed tokens back.
  void Rollback(int64_t tokens);

 private:
  friend class Grammar;
  struct Impl;
  explicit GrammarMatcher(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Compiled. Shared by the requests that use it; thread-safe. Outlived by the compiler that made it.
class Grammar {
 public:
  struct Impl;
  explicit Grammar(std::unique_ptr<Impl> impl);
  ~Grammar();

  std::unique_ptr<GrammarMatcher> NewMatcher() const;
  // Of memory that it takes, the vocabulary aside.
  int64_t bytes() const;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace rose
