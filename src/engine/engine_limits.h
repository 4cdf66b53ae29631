// What follows from the user's configuration: the scheduler's limits and the size of the KV cache.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "cache/divide_memory.h"
#include "engine/engine.h"
#include "scheduler/scheduler.h"
#include "tensor/kv_layout.h"

namespace rose {

// Each value within what it can be.
SchedulerLimits SchedulerLimitsOf(const EngineConfig& config);

// Whether steps are planned while the one before runs: if nothing else is asked for, where the
// executor feeds draws back. On the host itself it would only cost new requests a step of waiting.
bool IsPipelined(const EngineConfig& config, const ExecutorInfo& info);

std::vector<GroupCost> GroupCosts(const KvLayout& layout, DType kv_dtype);

// Pages of every KV group within `bytes`, for a model of `max_positions`. kInvalidArgument, saying
// how much is needed, if not even a short request would fit.
Result<std::vector<int64_t>> PlanKvPages(const KvLayout& layout, DType kv_dtype,
                                         int64_t max_positions, const EngineConfig& config,
                                         int64_t bytes);
// The same for a host tier.
Result<std::vector<int64_t>> PlanHostPages(const KvLayout& layout, DType kv_dtype, int64_t bytes);

}  // namespace rose
