// What measured runs are compared with: the model alone, step by step, without engine, graphs or
// pipelining.
#pragma once

#include <cstdint>
#include <vector>

#include "models/load.h"

namespace rose {

// The `tokens` most likely tokens, one after the other, behind each of `prompts`; ties go to the
// lower id. kUnavailable if there is no memory.
Result<std::vector<std::vector<int32_t>>> MostLikelyTokens(
    const LoadedModel& loaded, const std::vector<std::vector<int32_t>>& prompts, int64_t tokens);

}  // namespace rose
