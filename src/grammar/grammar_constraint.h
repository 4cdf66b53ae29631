// A whole output under one grammar, as raw completions have it: a TokenConstraint without a format.
#pragma once

#include <memory>
#include <vector>

#include "grammar/grammar.h"
#include "request/token_constraint.h"

namespace rose {

class GrammarConstraint : public TokenConstraint {
 public:
  // Where the text may end, any of `end_ids` may be drawn; after one of them everything may.
  GrammarConstraint(std::shared_ptr<const Grammar> grammar, std::vector<int32_t> end_ids);

  Result<std::span<const uint32_t>> Allowed(std::span<const int32_t> output) override;

 private:
  std::shared_ptr<const Grammar> grammar_;
  const std::vector<int32_t> end_ids_;
  std::unique_ptr<GrammarMatcher> matcher_;
  std::vector<int32_t> followed_;  // what the matcher has consumed
  std::vector<uint32_t> mask_;
};

}  // namespace rose
