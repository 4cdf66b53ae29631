// PipelinedExecutor: runs the steps of another executor on a thread of its own, so that the next
// step can be planned and submitted while one runs. It feeds draws back, so the other executor sees
// one step at a time, with all its tokens known.
#pragma once

#include <memory>

#include "engine/executor.h"

namespace rose {

// Two steps may be in flight.
std::unique_ptr<Executor> CreatePipelinedExecutor(std::unique_ptr<Executor> executor);

}  // namespace rose
