// Decoder: how a sequence advances in one step. It proposes draft tokens, the executor computes
// them all at once and draws a token after each, and the decoder says how many of those stand.
//
// The draw at a position depends on seed, position and logits alone, so a draft that equals the
// draw may stand, and the output never changes: plain, n-gram, draft-model and MTP decoders only
// differ in what they propose. All methods are called on the engine's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "request/request.h"

namespace rose {

class Decoder {
 public:
  virtual ~Decoder() = default;

  // Whether Propose ever proposes anything. If not, a step may be planned before the draws of the
  // step before are known.
  virtual bool proposes() const = 0;

  // Draft tokens, each in [0, vocab), to verify after `history` (prompt and output so far); may be
  // empty. The step may verify fewer of them, or none.
  virtual std::vector<int32_t> Propose(RequestId id, std::span<const int32_t> history) = 0;

  // How many of `drawn` (>= 1: one for the last token and one for each draft token, at least up to
  // the first that differs) are kept: the draws up to and including the first that differs from the
  // draft. >= 1.
  virtual int64_t Accept(std::span<const int32_t> draft, std::span<const SampledToken> drawn) = 0;
};

// One token a step, no drafts.
std::unique_ptr<Decoder> CreatePlainDecoder();

// The rule of Accept that every exact decoder has.
int64_t CountAccepted(std::span<const int32_t> draft, std::span<const SampledToken> drawn);

}  // namespace rose
