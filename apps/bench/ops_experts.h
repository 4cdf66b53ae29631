// The ops of a mixture of experts that `rose bench ops` times.
#pragma once

#include "bench/ops_cases.h"

namespace rose {

Result<OpCase> RouteCase(OpInputs& inputs, int64_t tokens);

// One of the two products of experts. Every copy's rows go where that layer's router sends them.
Result<OpCase> ExpertsCase(OpInputs& inputs, bool is_down, int64_t tokens);

}  // namespace rose
