// How a tokenizer cuts text into pieces: one row for each pattern that tokenizer.json files name.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace rose {

struct SplitRule {
  std::string_view name;
  std::string_view pattern;
  // End of the piece that starts at `pos` < text.size(); see o200k_split.h.
  int64_t (*piece_end)(std::string_view text, int64_t pos);
};

std::span<const SplitRule> SplitRules();
const SplitRule& O200kRule();

// The first place at or after `from` <= text.size() where the text may be cut, by any of the rules:
// the pieces of both parts, taken for themselves, are those of the whole. text.size() if there is
// none.
int64_t SplitCutAfter(std::string_view text, int64_t from);

}  // namespace rose
