// The ops of attention that `rose bench ops` times: appending to the cache, and attention over it.
#pragma once

#include <vector>

#include "bench/ops_cases.h"

namespace rose {

// Appending `tokens` rows of one prompt; attention of `tokens` users that decode at `context` keys,
// and of one prompt's chunk of `tokens` rows behind `context` keys, over all keys and over a
// window, as far as the model has such layers.
std::vector<PlannedCase> AttentionCases(OpInputs& inputs, int64_t tokens, int64_t context);

}  // namespace rose
