// The meter of the CUDA op set. Names no type of CUDA, as cuda_ops.h.
#pragma once

#include <memory>

#include "ops/op_meter.h"

namespace rose {

// For an op set that CreateCudaOps made, which must outlive it. Rounds are graphs of their calls,
// replayed several times between two events: what a call takes includes the boundary between two
// kernels, as in a recorded decode step, but no time of the host. Rounds that cannot be recorded
// are enqueued behind other work, so that the device does not wait for the host either.
std::unique_ptr<OpMeter> CreateCudaMeter(OpSet& ops);

}  // namespace rose
