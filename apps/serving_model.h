// A model ready to answer: weights, tokenizer, chat format and a running engine.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/context.h"
#include "chat/chat_format.h"
#include "engine/engine.h"
#include "grammar/compiler.h"
#include "model_loading.h"
#include "tokenizer/tokenizer.h"

namespace rose {

struct ServingOptions {
  ModelOptions model;
  EngineConfig engine;
  uint64_t kv_bytes = 0;          // memory of the KV cache; 0 = PlanKvBytes
  uint64_t gpu_bytes = 0;         // memory of the GPU for all of it; 0 = what is free
  int64_t step_tokens = 0;        // rows of a step; 0 = 512, on a GPU 8192
  uint64_t host_cache_bytes = 0;  // memory of its host tier; 0 = none
};

// Adds what AddModelOptions adds, and the options of context and memory.
void AddServingOptions(CLI::App& command, ServingOptions& options);

// Members are destroyed from the last to the first: the engine before what it runs.
struct ServingModel {
  std::string name;  // of its folder
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatFormat> format;
  std::unique_ptr<GrammarCompiler> grammars;  // for who serves the API; null = none
  LoadedModel loaded;
  SamplingParams defaults;  // generation_config.json
  std::unique_ptr<Engine> engine;
  int64_t max_requests = 0;  // that the engine has places for
  std::string summary;       // what was loaded and the plan, two lines for people
};

// Loads with a progress bar and starts the engine.
Result<ServingModel> LoadServingModel(const ServingOptions& options);

// What the endpoints need to know of it, its grammar compiler included, which is made here; `names`
// are those it is served under, empty = its own. The model outlives the context.
Result<ApiContext> MakeApiContext(ServingModel& model, const std::vector<std::string>& names);

}  // namespace rose
