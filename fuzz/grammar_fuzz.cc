// Any text as a JSON schema, a regular expression, a Lark or a GBNF grammar (by its first byte): it
// is refused, or its masks hold: what they allow is taken, and taking it back leads to the same
// mask.
#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "chat/byte_tokenizer.h"
#include "grammar/json_schema.h"
#include "grammar/llguidance.h"

namespace rose {
namespace {

Result<GrammarSource> SourceOf(uint8_t kind, std::string text) {
  if (kind % 3 == 0) {
    ROSE_ASSIGN_OR_RETURN(std::string schema, PrepareJsonSchema(text));
    return GrammarSource{GrammarSource::Kind::kJsonSchema, std::move(schema)};
  }
  if (kind % 3 == 1) return GrammarSource{GrammarSource::Kind::kRegex, std::move(text)};
  return GrammarTextSource(text);
}

void Follow(const Grammar& grammar, uint64_t random) {
  const auto matcher = grammar.NewMatcher();
  std::vector<uint32_t> before;
  for (int step = 0; step < 40; ++step) {
    const auto next = matcher->Next();
    if (!next.ok()) return;  // a limit of this text
    before.assign(next->mask.begin(), next->mask.end());
    std::vector<int32_t> allowed;
    for (size_t word = 0; word < before.size(); ++word)
      for (uint32_t bits = before[word]; bits != 0; bits &= bits - 1)
        allowed.push_back(static_cast<int32_t>(word * 32 + std::countr_zero(bits)));
    if (allowed.empty()) {
      ROSE_CHECK(next->accepting, "a text that can neither go on nor end");
      return;
    }
    random = random * 6364136223846793005u + 1442695040888963407u;
    const int32_t token = allowed[(random >> 33) % allowed.size()];
    if (!matcher->Consume(token)) {
      ROSE_CHECK(!matcher->Next().ok(), "token ", token, " was allowed");
      return;
    }
    if ((random >> 40) % 4 != 0) continue;
    matcher->Rollback(1);
    const auto again = matcher->Next();
    if (!again.ok()) return;
    ROSE_CHECK(std::equal(before.begin(), before.end(), again->mask.begin(), again->mask.end()));
    ROSE_CHECK(matcher->Consume(token));
  }
}

}  // namespace
}  // namespace rose

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rose;
  static const ByteTokenizer tokenizer;
  static const auto vocabulary = GrammarVocabulary::Create(tokenizer);
  if (size == 0) return 0;
  const auto source = SourceOf(data[0], std::string(data + 1, data + size));
  if (!source.ok() || !vocabulary.ok()) return 0;
  const auto grammar = CompileGrammar(*source, *vocabulary);
  if (grammar.ok()) Follow(**grammar, size);
  return 0;
}
