#include "models/load.h"

#include <filesystem>
#include <system_error>

namespace rose {
namespace {

void Bind(LoadedModel& loaded) {
  loaded.model->Bind([&](std::string_view name) -> const Weight& {
    const auto found = loaded.weights.find(name);
    ROSE_CHECK(found != loaded.weights.end(), "weight ", name, " is not in the table");
    return found->second;
  });
}

// Lets the op set bring the weights from their files.
Status StartFetch(LoadedModel& loaded, const std::function<void(const LoadProgress&)>& progress) {
  const std::vector<TensorSpec>& table = loaded.model->tensors();
  ROSE_ASSIGN_OR_RETURN(loaded.sources, WeightsInFiles(*loaded.checkpoint, table));
  int64_t total = 0;
  for (const auto& source : loaded.sources) total += source->weight().bytes();
  std::function<void(int64_t)> on_bytes;
  if (progress) {
    on_bytes = [progress, total](int64_t bytes) { progress({bytes, total}); };
  }
  ROSE_ASSIGN_OR_RETURN(std::vector<Weight> weights,
                        loaded.ops->StartFetch(loaded.sources, std::move(on_bytes)));
  for (size_t i = 0; i < table.size(); ++i) {
    loaded.weights.emplace(table[i].name, std::move(weights[i]));
  }
  return Status();
}

std::string NameOf(const std::string& folder) {
  std::error_code error;
  return std::filesystem::canonical(folder, error).filename().string();
}

}  // namespace

Result<LoadedModel> StartLoading(const std::string& folder, std::unique_ptr<OpSet> ops, int threads,
                                 const std::function<void(const LoadProgress&)>& progress) {
  LoadedModel loaded;
  loaded.ops = std::move(ops);
  ROSE_ASSIGN_OR_RETURN(loaded.checkpoint, OpenCheckpoint(folder));
  loaded.name = NameOf(folder);
  ROSE_ASSIGN_OR_RETURN(loaded.model, CreateModel(loaded.checkpoint->config_json()));
  const std::vector<TensorSpec>& table = loaded.model->tensors();
  if (loaded.ops->fetches()) {
    ROSE_RETURN_IF_ERROR(StartFetch(loaded, progress));
  } else {
    ROSE_ASSIGN_OR_RETURN(loaded.host_weights,
                          LoadWeights(*loaded.checkpoint, table, threads, progress));
    for (const TensorSpec& spec : table) {
      ROSE_ASSIGN_OR_RETURN(Weight weight, loaded.ops->Adopt(loaded.host_weights->Get(spec.name)));
      loaded.weights.emplace(spec.name, std::move(weight));
    }
  }
  Bind(loaded);
  return loaded;
}

Status FinishLoading(LoadedModel& loaded) {
  if (loaded.sources.empty()) return Status();
  return loaded.ops->FinishFetch();
}

Result<LoadedModel> LoadModel(const std::string& folder, std::unique_ptr<OpSet> ops, int threads,
                              const std::function<void(const LoadProgress&)>& progress) {
  ROSE_ASSIGN_OR_RETURN(LoadedModel loaded,
                        StartLoading(folder, std::move(ops), threads, progress));
  ROSE_RETURN_IF_ERROR(FinishLoading(loaded));
  return loaded;
}

Result<LoadedModel> LoadRandomModel(const std::string& name, const std::string& config_json,
                                    const RandomOptions& options, std::unique_ptr<OpSet> ops,
                                    const std::function<void(const LoadProgress&)>& progress) {
  LoadedModel loaded;
  loaded.name = name;
  loaded.ops = std::move(ops);
  ROSE_ASSIGN_OR_RETURN(loaded.model, CreateModel(config_json));
  const std::vector<TensorSpec>& table = loaded.model->tensors();
  ROSE_ASSIGN_OR_RETURN(const std::vector<RandomRecipe> recipes, RandomRecipes(table, options));
  LoadProgress made;
  for (const RandomRecipe& recipe : recipes) made.total_bytes += LayOut(recipe).bytes();
  for (size_t i = 0; i < table.size(); ++i) {
    ROSE_ASSIGN_OR_RETURN(Weight weight, loaded.ops->Generate(recipes[i]));
    loaded.weights.emplace(table[i].name, std::move(weight));
    made.done_bytes += LayOut(recipes[i]).bytes();
    if (progress) progress(made);
  }
  Bind(loaded);
  return loaded;
}

}  // namespace rose
