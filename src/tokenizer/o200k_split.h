// Cuts text into the pieces of the o200k pattern. Pairs are merged within a piece only.
#pragma once

#include <cstdint>
#include <string_view>

namespace rose {

// The pattern that O200kPieceEnd implements, as tokenizer.json files spell it.
extern const std::string_view kO200kPattern;

// End of the piece that starts at `pos` < text.size(); always > pos, so that every byte is in
// exactly one piece. An invalid UTF-8 sequence is split as U+FFFD would be. Linear over a text.
int64_t O200kPieceEnd(std::string_view text, int64_t pos);

}  // namespace rose
