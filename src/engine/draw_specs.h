// DrawSpecs: the draws of a step as a device needs them, from what the engine's sampler is told.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "engine/sampler.h"
#include "ops/draw_queue.h"

namespace rose {

// Whether a draw depends on the tokens before it, beyond what logits say of them.
bool ReadsHistory(const SamplingParams& params);
// Whether only the host's sampler can do it: who wants logprobs, or names a token's bias twice.
bool NeedsHost(const SamplingParams& params);

class DrawSpecs {
 public:
  void Clear();
  // The draw of `row.logits`' row `logits_row` as Sampler::Draw would do it (row.logits itself is
  // not read). Not for params that NeedsHost.
  void Add(const SampleRow& row, int64_t logits_row, int64_t vocab);
  // All that were added; valid until the next Clear.
  std::span<const DrawSpec> specs();

 private:
  struct Extent {
    size_t begin = 0, size = 0;
  };

  std::vector<DrawSpec> specs_;
  std::vector<LogitEdit> edits_;
  std::vector<Extent> edits_of_, masks_of_;  // by spec
  std::vector<uint32_t> masks_;
  std::map<int32_t, LogitEdit> by_id_;  // of the spec being added
};

}  // namespace rose
