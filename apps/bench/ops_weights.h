// The weights that `rose bench ops` computes with: where ops compute, several of each, and in
// memory of the host for the reference.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "model_loading.h"
#include "ops/host_random.h"

namespace rose {

// Weights of one shape that calls use by turns. They are empty where the model has none.
struct WeightCopies {
  std::string name;             // of copy 0, for Host
  std::vector<Weight> adopted;  // at least one
  const Weight& at(int64_t call) const {
    return adopted[static_cast<size_t>(call) % adopted.size()];
  }
};

class BenchWeights {
 public:
  // `dense`: "" = the model's own matrices of attention; otherwise made-up ones of that format.
  static Result<std::unique_ptr<BenchWeights>> Create(const LoadedModel& loaded,
                                                      const ModelOptions& options,
                                                      const std::string& dense);

  // Those of all layers (on a CPU of the first alone), or the one that is no layer's.
  WeightCopies Of(const std::string& name) const;
  // The same of a matrix. Where other weights of the model push it out of a GPU's cache between two
  // uses, but its own copies would not, there are more, made up.
  Result<WeightCopies> Matrices(const std::string& name);
  // Copy 0 in memory of the host, as a checkpoint has it. Of a stack of experts, only `experts` are
  // to be read.
  Result<Weight> Host(const WeightCopies& copies, const std::vector<int32_t>& experts = {});
  // Numbers about normally distributed, rounded to bf16, in host memory: BF16 [rows, cols]. A
  // shorter one is the beginning of a longer one.
  static RandomRecipe Activations(const std::string& name, int64_t rows, int64_t cols);

  const LoadedModel& loaded() const { return loaded_; }
  bool is_on_gpu() const { return is_on_gpu_; }

 private:
  BenchWeights(const LoadedModel& loaded, bool is_on_gpu)
      : loaded_(loaded), is_on_gpu_(is_on_gpu) {}
  Result<Weight> MakeExperts(const RandomRecipe& recipe, const std::string& name,
                             const std::vector<int32_t>& experts);

  struct Stack {
    Weight weight;
    std::unique_ptr<uint8_t, void (*)(void*)> data{nullptr, nullptr}, scales{nullptr, nullptr};
    std::set<int32_t> made;
  };

  const LoadedModel& loaded_;
  const bool is_on_gpu_;
  std::string dense_;
  const HostWeights* checkpoint_ = nullptr;  // null where the model's weights are made up
  std::unique_ptr<HostWeights> read_again_;
  double bytes_ = 0;                             // of all weights
  std::map<std::string, RandomRecipe> recipes_;  // of made-up weights
  std::map<std::string, WeightCopies> made_up_;  // what Matrices made
  HostRandomWeights memory_;
  std::map<std::string, Weight> host_;
  std::map<std::string, Stack> stacks_;
};

}  // namespace rose
