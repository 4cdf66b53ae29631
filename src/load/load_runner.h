// LoadRunner: sends requests to a server as a plan says, all on one thread, and takes the time of
// everything that comes back.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "load/target.h"

namespace rose {

struct LoadRequest {
  std::string path;  // after the target's prefix: "/chat/completions"
  std::string body;  // JSON with "stream": true
};

// When requests are sent.
struct LoadPlan {
  // Closed loop: so many at a time, the next as soon as one is answered. 0 = open loop.
  int64_t concurrency = 1;
  // Open loop: each at its time in seconds after the start, ascending, whatever the answers do.
  std::vector<double> arrivals;
  double timeout_s = 600;   // of one request
  int64_t max_open = 4096;  // open loop: requests at a time; those that must wait are late
};

// What became of one request. Times in seconds after the start; negative = did not happen.
struct LoadRecord {
  double due_s = -1;              // open loop: when it should have been sent
  double sent_s = -1;             // when it was handed to a connection
  double done_s = -1;             // the end of the answer, or the failure
  std::vector<double> token_s;    // of every event that said something
  int64_t prompt_tokens = 0;      // as the answer's usage has them; 0 = it had none
  int64_t completion_tokens = 0;  // the usage's, else the number of events that said something
  int status = 0;                 // of HTTP; 0 = none came
  bool has_retry_after = false;   // the reply's header
  std::string error;              // empty = answered in full
};

// `n` arrival times of a Poisson process with `rate` a second; the same for the same seed.
std::vector<double> PoissonArrivals(int64_t n, double rate, uint64_t seed);

// Sends all requests and waits for all answers; the records are in their order. A request that
// fails is a record with an error. `on_progress` is called now and then with the number of records
// that are complete; it may return false to stop: what runs is then an error, and what was not sent
// has no record.
std::vector<LoadRecord> RunLoad(const LoadTarget& target, const LoadPlan& plan,
                                const std::vector<LoadRequest>& requests,
                                const std::function<bool(int64_t done)>& on_progress);

}  // namespace rose
