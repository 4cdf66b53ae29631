// Trace: which requests come, and when: made up from distributions, or recorded.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace rose {

struct TraceRequest {
  double at_s = 0;
  int64_t prompt_tokens = 1;
  int64_t output_tokens = 1;
  // Requests of the same prefix begin with the same prefix_tokens; 0 tokens = nothing in common.
  uint64_t prefix = 0;
  int64_t prefix_tokens = 0;
};

// How many tokens: "128"; "100:500", drawn evenly from there; "300~0.8", log-normal with this
// median and this sigma of its logarithm, a usual form of recorded lengths; "@FILE", drawn from the
// numbers of a file, one a line.
class Lengths {
 public:
  // kInvalidArgument for another form; as ReadFile for a file.
  static Result<Lengths> Parse(const std::string& text);
  int64_t Draw(std::mt19937_64& random) const;  // >= 1

 private:
  int64_t least_ = 1, most_ = 1;
  double median_ = 0, sigma_ = 0;  // median_ > 0: log-normal
  std::vector<int64_t> list_;      // not empty: one of these
};

struct TraceOptions {
  int64_t requests = 1000;
  double rate = 0;    // a second; 0 = all at once
  int64_t burst = 1;  // come together, still `rate` a second on average
  Lengths input, output;
  int64_t prefixes = 1;       // different ones, each as likely
  int64_t prefix_tokens = 0;  // of each, beside the input
  double prefix_share = 1;    // of the requests that begin with one
  uint64_t seed = 1;
};

// Poisson arrivals, of bursts if they are larger than 1. The same options give the same trace, with
// every compiler.
std::vector<TraceRequest> MakeTrace(const TraceOptions& options);

// One request a line, {"at_s": 0.5, "prompt_tokens": 700, "output_tokens": 90}, in any order, and
// optionally "prefix": "name", "prefix_tokens": 500, counted in prompt_tokens. kInvalidArgument
// names the line.
Result<std::vector<TraceRequest>> ReadTrace(std::string_view jsonl);
std::string TraceLine(const TraceRequest& request);

// Made-up tokens of the request's prompt: the prefix's, then those of request `index` alone.
std::vector<int32_t> PromptOf(const TraceRequest& request, int64_t index, int64_t vocab);

}  // namespace rose
