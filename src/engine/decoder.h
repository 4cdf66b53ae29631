// Decoder: how a sequence advances in one step. It proposes draft tokens, the executor computes
// them all at once and draws a token after each, and the decoder says how many of those stand.
//
// The draw at a position depends on seed, position and logits alone, so a draft that equals the
// draw may stand, and the output never changes: plain, n-gram, draft-model and MTP decoders only
// differ in what they propose.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "request/request.h"

namespace rose {

class Decoder {
 public:
  virtual ~Decoder() = default;

  // Draft tokens to verify after `history` (prompt and output so far); may be empty.
  virtual std::vector<int32_t> Propose(RequestId id, std::span<const int32_t> history) = 0;

  // How many of `drawn` (one for the last token and one for each draft token) are kept: the draws
  // up to and including the first that differs from the draft. >= 1.
  virtual int64_t Accept(std::span<const int32_t> draft, std::span<const SampledToken> drawn) = 0;
};

}  // namespace rose
