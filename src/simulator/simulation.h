// Simulate: a trace on replicas of the engine behind a router, in virtual time. Step loop,
// scheduler and cache are those that serve; only the executor is not.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/engine.h"
#include "load/load_runner.h"
#include "simulator/step_costs.h"
#include "simulator/trace.h"

namespace rose {

enum class Router {
  kRoundRobin,
  kLeastLoaded,   // the fewest unfinished requests
  kPrefixAffine,  // the same prefix to the same replica, unless that has far more than the others
};

struct SimulationSetup {
  EngineConfig engine;
  ExecutorInfo executor;  // of each replica: vocabulary, groups, pages
  int64_t replicas = 1;
  Router router = Router::kRoundRobin;
};

// Sums over all replicas, where nothing else is said.
struct SimulationResult {
  std::vector<LoadRecord> records;  // in the order of the trace; a refused request has an error
  int64_t prefix_queries = 0;       // tokens of prompts
  int64_t prefix_hits = 0;          // and of those, cached
  int64_t steps = 0;
  int64_t preemptions = 0;
  int64_t refused = 0;              // all places were taken, or it could never run
  std::vector<int64_t> most_pages;  // [group] in use by requests on one replica at a time
  int64_t cached_pages = 0;         // kept by the prefix caches at the end, of all groups
  double busy_s = 0;                // that executors computed
};

// `trace` by time. Called now and then, `on_progress` gets the number of requests that came.
SimulationResult Simulate(const StepCosts& costs, const SimulationSetup& setup,
                          const std::vector<TraceRequest>& trace,
                          const std::function<void(int64_t came)>& on_progress);

}  // namespace rose
