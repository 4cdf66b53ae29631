// What a request must fulfil before the engine takes it in.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "cache/kv_pages.h"
#include "request/request.h"

namespace rose {

struct RequestLimits {
  int64_t vocab = 0;
  int64_t max_context = 0;  // tokens of prompt and answer
  int64_t page_size = 0;
  std::span<const PageGroup> groups;
};

// kInvalidArgument with a sentence that names the field and its limit.
Status CheckRequest(const Request& request, const RequestLimits& limits);

// The longest context that fits when one request has all pages, at most max_positions.
int64_t LargestContext(const RequestLimits& limits, int64_t max_positions);

}  // namespace rose
