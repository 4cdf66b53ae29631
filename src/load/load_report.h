// LoadReport: what a load showed, as numbers, as a line of JSON and as a table.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "load/load_runner.h"

namespace rose {

// Of a set of measurements in milliseconds; all 0 if there are none.
struct Spread {
  int64_t count = 0;
  double mean = 0, p10 = 0, p50 = 0, p90 = 0, p99 = 0, max = 0;
};

// Percentiles by the nearest rank: the least value that is not below the share asked for.
Spread SpreadOf(std::vector<double> seconds);

struct LoadReport {
  int64_t requests = 0;                   // sent
  int64_t answered = 0;                   // in full; the figures below are of these
  std::map<std::string, int64_t> errors;  // how often each occurred
  double seconds = 0;                     // from the first request sent to the last answer's end
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t most_running = 0;  // requests at a time
  Spread first_token_ms;     // from the request being sent to the first event that says something
  Spread inter_token_ms;     // between such events
  Spread per_token_ms;  // of each answer: time after its first token, divided by its further tokens
  Spread answer_ms;     // from the request being sent to the end of the answer
  Spread late_ms;       // open loop: sent after it was due. Large = this program was the bottleneck
};

LoadReport ReportOf(const std::vector<LoadRecord>& records);

// Members without braces: "requests": 100, ...
std::string ReportJson(const LoadReport& report);
// For people, several lines.
std::string ReportTable(const LoadReport& report);

}  // namespace rose
