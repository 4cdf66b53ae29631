// Replay: a trace on a real engine, in real time, to hold a simulation against.
#pragma once

#include <functional>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "load/load_runner.h"
#include "simulator/trace.h"

namespace rose {

// Submits every request at its time and waits for all of them; the records are in their order.
// `on_progress` is called now and then with the number of requests that ended.
std::vector<LoadRecord> Replay(Engine& engine, const std::vector<TraceRequest>& trace,
                               const std::function<void(int64_t done)>& on_progress);

}  // namespace rose
