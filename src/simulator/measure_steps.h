// Measures what steps of many shapes take on a real executor.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "cache/kv_pages.h"
#include "engine/executor.h"
#include "simulator/step_costs.h"

namespace rose {

// `decodes` sequences with `context` tokens before them compute one token each, and a prompt
// `prompt_rows` tokens behind its first `prompt_start`.
struct StepRecipe {
  int64_t decodes = 0;
  int64_t context = 0;
  int64_t prompt_rows = 0;
  int64_t prompt_start = 0;
};

// Steps of all kinds that an engine may run: up to `most_decodes` sequences, `most_rows` rows and
// `context` tokens.
std::vector<StepRecipe> StepRecipes(int64_t most_decodes, int64_t most_rows, int64_t context);

// Pages of every group that an executor needs for these.
std::vector<int64_t> PagesForRecipes(const KvLayout& kv, const std::vector<StepRecipe>& recipes);

// The median of `repeats` runs of each, after one that does not count. `on_progress` gets the
// number of recipes done. Throws CheckFailure as the executor does.
std::vector<MeasuredStep> MeasureSteps(Executor& executor, const std::vector<StepRecipe>& recipes,
                                       int64_t repeats,
                                       const std::function<void(int64_t done)>& on_progress);

}  // namespace rose
