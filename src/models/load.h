// From a checkpoint folder to a model that can run on an op set.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/random_recipe.h"
#include "models/model.h"
#include "ops/ops.h"

namespace rose {

// Everything that a running model refers to. Members are destroyed from the last to the first: the
// model before its ops, the weights before the files that they are views of.
struct LoadedModel {
  std::string name;                           // of the folder, or what the caller called it
  std::unique_ptr<Checkpoint> checkpoint;     // null where the weights are made up
  std::unique_ptr<HostWeights> host_weights;  // for an op set that adopts,
  std::vector<std::unique_ptr<WeightSource>> sources;  // for one that fetches
  std::unique_ptr<OpSet> ops;
  std::map<std::string, Weight, std::less<>> weights;  // adopted by `ops`, by table name
  std::unique_ptr<Model> model;                        // bound
};

// Opens `folder`, creates the model that its config.json names, loads with `threads` readers, and
// binds. Fails as OpenCheckpoint, CreateModel, LoadWeights and OpSet::Adopt do. `progress` may be
// empty; it is called from any thread.
Result<LoadedModel> LoadModel(const std::string& folder, std::unique_ptr<OpSet> ops, int threads,
                              const std::function<void(const LoadProgress&)>& progress);

// The same for who has something to do meanwhile: where `ops` fetches, the weights hold zeros as
// long as they are on their way, until FinishLoading. A copy of `progress` is called until then.
Result<LoadedModel> StartLoading(const std::string& folder, std::unique_ptr<OpSet> ops, int threads,
                                 const std::function<void(const LoadProgress&)>& progress);
Status FinishLoading(LoadedModel& loaded);

// The model of a config.json with weights made up by `ops`, for measurements. `name` is what
// results call it. Fails as CreateModel, RandomRecipes and OpSet::Generate do. `progress` is called
// from this thread.
Result<LoadedModel> LoadRandomModel(const std::string& name, const std::string& config_json,
                                    const RandomOptions& options, std::unique_ptr<OpSet> ops,
                                    const std::function<void(const LoadProgress&)>& progress);

}  // namespace rose
