#include "models/load.h"

namespace rose {

Result<LoadedModel> LoadModel(const std::string& folder, std::unique_ptr<OpSet> ops, int threads,
                              const std::function<void(const LoadProgress&)>& progress) {
  LoadedModel loaded;
  loaded.ops = std::move(ops);
  ROSE_ASSIGN_OR_RETURN(loaded.checkpoint, OpenCheckpoint(folder));
  ROSE_ASSIGN_OR_RETURN(loaded.model, CreateModel(loaded.checkpoint->config_json()));
  const std::vector<TensorSpec>& table = loaded.model->tensors();
  ROSE_ASSIGN_OR_RETURN(loaded.host_weights,
                        LoadWeights(*loaded.checkpoint, table, threads, progress));
  for (const TensorSpec& spec : table) {
    ROSE_ASSIGN_OR_RETURN(Weight weight, loaded.ops->Adopt(loaded.host_weights->Get(spec.name)));
    loaded.weights.emplace(spec.name, std::move(weight));
  }
  loaded.model->Bind([&](std::string_view name) -> const Weight& {
    const auto found = loaded.weights.find(name);
    ROSE_CHECK(found != loaded.weights.end(), "weight ", name, " is not in the table");
    return found->second;
  });
  return loaded;
}

}  // namespace rose
