#include "bench/ops_weights.h"

#include <algorithm>
#include <cmath>

#include "base/cpu.h"
#include "base/parallel_for.h"
#include "quant/codec.h"

namespace rose {
namespace {

constexpr double kPastCache = 2e8;  // bytes that push all else out of L2 (60 MB on an H200)
constexpr uint64_t kSeed = 20;      // of what is made up here

double Elements(const std::vector<int64_t>& shape) {
  double n = 1;
  for (int64_t size : shape) n *= static_cast<double>(size);
  return n;
}

std::string LayerName(int64_t layer, const std::string& name) {
  return StrCat("layers.", layer, ".", name);
}

}  // namespace

Result<std::unique_ptr<BenchWeights>> BenchWeights::Create(const LoadedModel& loaded,
                                                           const ModelOptions& options,
                                                           const std::string& dense) {
  std::unique_ptr<BenchWeights> weights(new BenchWeights(loaded, IsOnGpu(*loaded.ops)));
  weights->dense_ = dense;
  for (const auto& [name, weight] : loaded.weights)
    weights->bytes_ += static_cast<double>(weight.bytes());
  const std::vector<TensorSpec>& table = loaded.model->tensors();
  weights->checkpoint_ = loaded.host_weights.get();
  if (loaded.checkpoint != nullptr && weights->checkpoint_ == nullptr) {
    // The op set has fetched them; the reference reads them again.
    ROSE_ASSIGN_OR_RETURN(weights->read_again_,
                          LoadWeights(*loaded.checkpoint, table, AvailableCpus(), {}));
    weights->checkpoint_ = weights->read_again_.get();
  }
  if (weights->checkpoint_ != nullptr) return weights;
  ROSE_ASSIGN_OR_RETURN(std::vector<RandomRecipe> recipes,
                        RandomRecipes(table, ToRandomOptions(options.random)));
  for (size_t i = 0; i < table.size(); ++i)
    weights->recipes_.emplace(table[i].name, std::move(recipes[i]));
  return weights;
}

WeightCopies BenchWeights::Of(const std::string& name) const {
  WeightCopies copies{.name = LayerName(0, name), .adopted = {}};
  const int64_t layers = is_on_gpu_ ? loaded_.model->info().layers : 1;
  for (int64_t i = 0; i < layers; ++i) {
    const auto found = loaded_.weights.find(LayerName(i, name));
    if (found != loaded_.weights.end()) copies.adopted.push_back(found->second);
  }
  if (!copies.adopted.empty()) return copies;
  const auto found = loaded_.weights.find(name);
  copies.name = name;
  copies.adopted.push_back(found == loaded_.weights.end() ? Weight() : found->second);
  return copies;
}

Result<WeightCopies> BenchWeights::Matrices(const std::string& name) {
  if (const auto made = made_up_.find(name); made != made_up_.end()) return made->second;
  WeightCopies copies = Of(name);
  const Weight first = copies.adopted.front();
  const double bytes = static_cast<double>(first.bytes());
  const bool is_cached = is_on_gpu_ && bytes_ > kPastCache &&
                         bytes * static_cast<double>(copies.adopted.size()) < kPastCache;
  // Routers and heads are bf16 in all models.
  const bool is_other = !dense_.empty() && (name == "qkv" || name == "o");
  if (!is_other && !is_cached) return copies;
  const WeightFormat format = is_other ? FindCodec(dense_)->format() : first.format;
  const double deviation = 1 / std::sqrt(static_cast<double>(first.shape.back()));
  copies.adopted.clear();
  double made_bytes = 0;
  do {
    const std::string copy = StrCat("bench ", name, " ", copies.adopted.size());
    RandomRecipe recipe =
        MakeRandomRecipe(format, first.shape, RandomKey(kSeed, copy), 0, deviation);
    ROSE_ASSIGN_OR_RETURN(Weight weight, loaded_.ops->Generate(recipe));
    if (copies.adopted.empty()) {
      copies.name = copy;
      recipes_.emplace(copy, std::move(recipe));
    }
    made_bytes += static_cast<double>(weight.bytes());
    copies.adopted.push_back(std::move(weight));
  } while (is_on_gpu_ && made_bytes < kPastCache);
  made_up_.emplace(name, copies);
  return copies;
}

Result<Weight> BenchWeights::Host(const WeightCopies& copies, const std::vector<int32_t>& experts) {
  if (copies.adopted.front().empty()) return Weight();
  const auto recipe = recipes_.find(copies.name);
  if (recipe == recipes_.end()) return checkpoint_->Get(copies.name);
  if (recipe->second.shape.size() == 3) return MakeExperts(recipe->second, copies.name, experts);
  if (const auto made = host_.find(copies.name); made != host_.end()) return made->second;
  Weight weight;
  if (recipe->second.listed.empty()) {
    ROSE_ASSIGN_OR_RETURN(weight, memory_.Make(recipe->second, AvailableCpus()));
  } else {
    weight = LayOut(recipe->second);
    weight.data = Tensor(recipe->second.listed.data(), DType::kBf16, recipe->second.shape);
  }
  return host_.emplace(copies.name, weight).first->second;
}

// The whole stack has its addresses, but memory only where experts were made.
Result<Weight> BenchWeights::MakeExperts(const RandomRecipe& recipe, const std::string& name,
                                         const std::vector<int32_t>& experts) {
  Stack& stack = stacks_[name];
  if (stack.weight.empty()) {
    stack.weight = LayOut(recipe);
    const auto allocate = [](Tensor& tensor, auto& memory) {
      if (tensor.empty()) return true;
      memory = {static_cast<uint8_t*>(std::malloc(tensor.bytes())), std::free};
      tensor = Tensor(memory.get(), tensor.dtype(), tensor.shape());
      return memory != nullptr;
    };
    if (!allocate(stack.weight.data, stack.data) || !allocate(stack.weight.scales, stack.scales)) {
      stacks_.erase(name);
      return Unavailable("not enough memory for ", name, " on the host");
    }
  }
  std::vector<int32_t> missing;
  for (int32_t expert : experts) {
    if (stack.made.insert(expert).second) missing.push_back(expert);
  }
  const Weight& weight = stack.weight;
  const auto numbers = static_cast<int64_t>(Elements(weight.shape)) / weight.shape[0];
  const int64_t bytes = weight.data.bytes() / weight.shape[0];
  const int64_t scales = weight.scales.empty() ? 0 : weight.scales.elements() / weight.shape[0];
  const int64_t scale_bytes = weight.scales.bytes() / weight.shape[0];
  ParallelFor(AvailableCpus(), std::ssize(missing), [&](int64_t i) {
    const int64_t e = missing[i];
    FillRandomData(recipe, e * numbers, (e + 1) * numbers, stack.data.get() + e * bytes);
    if (scales > 0)
      FillRandomScales(recipe, e * scales, (e + 1) * scales, stack.scales.get() + e * scale_bytes);
  });
  return weight;
}

RandomRecipe BenchWeights::Activations(const std::string& name, int64_t rows, int64_t cols) {
  return MakeRandomRecipe(kBf16Format, {rows, cols}, RandomKey(kSeed, name), 0, 1);
}

}  // namespace rose
