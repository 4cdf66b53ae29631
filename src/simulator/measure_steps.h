// Measures what steps take on a real executor, by running the engine's step loop on it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/engine.h"
#include "engine/executor.h"
#include "simulator/step_costs.h"

namespace rose {

// So many sequences come at once, each with so long a prompt, and go on to decode together.
struct Scene {
  int64_t sequences = 1;
  int64_t prompt_tokens = 1;
};

// Scenes that make an engine run steps of all kinds: up to `most_sequences` of them, and prompts of
// up to `longest` tokens.
std::vector<Scene> Scenes(int64_t most_sequences, int64_t longest);

// Pages of every group that an executor needs for these.
std::vector<int64_t> PagesForScenes(const KvLayout& kv, const std::vector<Scene>& scenes);

// Plays all scenes, `repeats` times, and takes the time of every step: from the end of the one
// before to its own, so that planning and settling count where they delay it. Steps of about the
// same shape are one measured step: their mean shape, their median time. Throws CheckFailure as the
// executor does. `on_progress` gets the number of scenes done.
std::vector<MeasuredStep> MeasureSteps(Executor& executor, const EngineConfig& config,
                                       const std::vector<Scene>& scenes, int64_t repeats,
                                       const std::function<void(int64_t done)>& on_progress);

}  // namespace rose
