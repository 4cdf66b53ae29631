// What every command that runs a model shares: the options that name it, and loading with a bar.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "base/progress.h"
#include "models/load.h"
#include "random_options.h"

namespace rose {

struct ModelOptions {
  std::string folder;                // empty = the shipped model
  std::string precision = "exact";   // exact, fast
  std::string device = "auto";       // auto, cpu, cuda
  int threads = 0;                   // 0 = all processors
  std::string load_format = "auto";  // random: weights are made up
  RandomChoice random;               // `like` alone asks for made-up weights too

  bool is_random() const { return load_format == "random" || !random.like.empty(); }
};

// Adds DIR, --precision, --device, --threads and those of made-up weights, with checks of their
// values.
void AddModelOptions(CLI::App& command, ModelOptions& options);

// The folder to load: `given`, which must exist, or else the shipped model rosebud, looked for
// beside the program (../models, ../share/rose/models) and in the source tree. kNotFound says where
// it looked.
Result<std::string> FindModelFolder(const std::string& given);

// The tokenizer that belongs to the model, as OpenTokenizer takes it: the folder, or o200k_harmony
// where that has none and the model is a gpt-oss of the published vocabulary, or made up.
Result<std::string> FindTokenizer(const ModelOptions& options);

// The op set that device and precision name.
Result<std::unique_ptr<OpSet>> CreateOps(const ModelOptions& options);

// Whether the op set computes on a GPU.
bool IsOnGpu(const OpSet& ops);

// Rows of a step, at most, where the user names no number.
int64_t DefaultStepTokens(const OpSet& ops);

// Finds, loads and binds the model; a progress bar on a terminal.
Result<LoadedModel> LoadModelWithBar(const ModelOptions& options);

// The same onto `ops`, as StartLoading: it is done at FinishLoading. Until then the bar must live;
// `bar` gets it.
Result<LoadedModel> StartLoadingWithBar(const ModelOptions& options, std::unique_ptr<OpSet> ops,
                                        std::unique_ptr<ProgressBar>& bar);

}  // namespace rose
