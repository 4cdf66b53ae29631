// Sequence: a request inside the engine. Owned by the step loop, touched by its thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "cache/kv_pages.h"
#include "request/request.h"

namespace rose {

struct Sequence {
  RequestId id = 0;
  Request request;  // its prompt is moved into `tokens`
  uint64_t seed = 0;
  int64_t prompt_tokens = 0;

  std::vector<int32_t> tokens;  // prompt and output; while a step runs, the draft behind them
  int64_t known = 0;            // tokens without the draft
  int64_t computed = 0;         // positions with K and V in pages; < known
  int64_t scored = 0;           // prompt tokens whose logprobs were delivered; the first has none
  std::vector<int32_t> draft;   // proposed for the step being planned
  SeqPages pages;
  PrefixTree::Match match;  // while it waits: what is cached, as of the step being planned
  int64_t cached = 0;       // prompt tokens that were cached when it was admitted first
  bool admitted = false;    // has run before
  double queued_ms = -1;    // from Submit to its first step
  bool finished = false;    // its last event is out; removed when the step ends
};

}  // namespace rose
