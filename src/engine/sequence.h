// Sequence: a request inside the engine. Owned by the step loop, touched by its thread only; the
// executor reads what a plan points to, and writes the one token that it feeds back.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <vector>

#include "cache/kv_pages.h"
#include "request/request.h"

namespace rose {

// The order of service; smaller comes first. Fixed when the request comes in, so the order of two
// requests never changes.
struct Rank {
  std::chrono::steady_clock::time_point due;  // arrival, moved by the priority
  RequestId id = 0;
  auto operator<=>(const Rank&) const = default;
};

struct Sequence {
  RequestId id = 0;
  Request request;  // its prompt is moved into `tokens`
  uint64_t seed = 0;
  Rank rank;
  int64_t prompt_tokens = 0;

  // Prompt and output; while a step runs, the draft behind them. Room for all of them is reserved
  // when it comes to run, as a step in flight points into it.
  std::vector<int32_t> tokens;
  // Counts as of the end of all steps in flight. The last `unknown` of `known` are being drawn.
  int64_t known = 0;           // tokens without the draft
  int64_t unknown = 0;         // <= 2
  int64_t computed = 0;        // positions with K and V in pages; < known
  int64_t settled = 0;         // of those, the ones whose tokens this thread knows and may read
  int64_t scored = 0;          // prompt tokens whose logprobs were delivered; the first has none
  std::vector<int32_t> draft;  // proposed for the step being planned
  SeqPages pages;
  PrefixTree::Match match;  // while it waits: what is cached, as of the step being planned
  int64_t rows = 0;         // in the step being planned
  // Pipelined: the step that it was part of last, and its place in that plan.
  int64_t step = -1, plan_index = 0;
  bool fed = false;  // the oldest unknown token is written by the executor, not by the loop

  int64_t cached = 0;     // prompt tokens that were cached when it was admitted first
  bool admitted = false;  // has run before
  bool running = false;   // has pages
  double queued_ms = -1;  // from Submit to its first step
  bool finished = false;  // its last event is out; removed when the step ends

  // All tokens allowed are drawn or being drawn.
  bool full() const { return known - prompt_tokens >= request.max_tokens; }
};

}  // namespace rose
