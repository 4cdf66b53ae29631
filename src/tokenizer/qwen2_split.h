// Cuts text into the pieces of the pattern of Qwen2, which Qwen3 has as well.
#pragma once

#include <cstdint>
#include <string_view>

namespace rose {

// The pattern that Qwen2PieceEnd implements, as tokenizer.json files spell it.
extern const std::string_view kQwen2Pattern;

// As O200kPieceEnd.
int64_t Qwen2PieceEnd(std::string_view text, int64_t pos);

}  // namespace rose
