// DeviceExecutor: enqueues the steps of a model on a device that draws tokens itself, so that a
// step can be enqueued while the one before runs.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "engine/executor.h"
#include "models/model.h"
#include "ops/ops.h"

namespace rose {

// Parameters and errors as ModelExecutor::Create; ops.draws() is not null. Two steps may be in
// flight.
Result<std::unique_ptr<Executor>> CreateDeviceExecutor(const Model& model, OpSet& ops,
                                                       const std::vector<int64_t>& pages,
                                                       const std::vector<int64_t>& host_pages);

}  // namespace rose
