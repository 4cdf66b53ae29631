// The one door to llguidance, the Rust library that does the work. In a build without it every call
// answers kUnsupported.
#pragma once

#include <memory>

#include "base/status.h"
#include "grammar/grammar.h"
#include "tokenizer/tokenizer.h"

namespace rose {

// A tokenizer's vocabulary as the library wants it: a trie of the bytes of all ordinary tokens.
class GrammarVocabulary {
 public:
  // Takes some tenths of a second for 200,000 tokens.
  static Result<std::shared_ptr<const GrammarVocabulary>> Create(const Tokenizer& tokenizer);
  ~GrammarVocabulary();

  struct Impl;
  explicit GrammarVocabulary(std::unique_ptr<Impl> impl);
  const Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// Compiles on the calling thread. The schema must have gone through PrepareJsonSchema: the
// library's own limits bound what a flat one costs, not a deep one. Errors say what the library
// dislikes, or which of its limits the first steps of a text would meet.
Result<std::shared_ptr<const Grammar>> CompileGrammar(
    const GrammarSource& source, std::shared_ptr<const GrammarVocabulary> vocabulary);

// False in a build without the library.
bool HasGrammars();

}  // namespace rose
