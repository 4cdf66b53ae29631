#include <algorithm>

#include "bench/ops_cases.h"
#include "bench/ops_check.h"

namespace rose {

OpChecked CompareRows(const std::vector<float>& actual, const Tensor& expected, double bound) {
  return {expected.dim(0), WorstOneMinusCosine(actual, expected), bound};
}

Result<Tensor> OpInputs::Activations(const std::string& name, int64_t rows, int64_t cols) {
  Tensor& all = activations_[name];
  if (all.empty()) {
    // As many as the longest case will ask for; inputs of experts that have a row of each token's.
    const int64_t each = name == "down" ? info().experts_per_token : 1;
    const int64_t made = std::max(rows, most_tokens_ * each);
    const RandomRecipe recipe = BenchWeights::Activations(name, made, cols);
    if (is_on_gpu()) {
      ROSE_ASSIGN_OR_RETURN(const Weight values, ops().Generate(recipe));
      all = values.data;
    } else {
      HostRandomWeights memory;
      ROSE_ASSIGN_OR_RETURN(const Weight values, memory.Make(recipe, /*threads=*/1));
      std::vector<float>& floats = floats_.emplace_back(made * cols);
      for (size_t i = 0; i < floats.size(); ++i) floats[i] = ToFloat(values.data.data<Bf16>()[i]);
      all = Tensor(floats.data(), DType::kF32, {made, cols});
    }
  }
  ROSE_CHECK(rows <= all.dim(0) && cols == all.dim(1), name, ": ", rows, " of ", all.ToString());
  return Tensor(all.raw(), all.dtype(), {rows, cols});
}

Result<Tensor> OpInputs::Residual(int64_t rows) {
  const int64_t hidden = info().hidden;
  if (residual_.empty()) {
    HostRandomWeights memory;
    ROSE_ASSIGN_OR_RETURN(
        const Weight values,
        memory.Make(BenchWeights::Activations("residual", most_tokens_, hidden), /*threads=*/1));
    std::vector<float> floats(most_tokens_ * hidden);
    for (size_t i = 0; i < floats.size(); ++i) floats[i] = ToFloat(values.data.data<Bf16>()[i]);
    residual_ = meter_.Place(Tensor(floats.data(), DType::kF32, {most_tokens_, hidden}));
  }
  return Tensor(residual_.raw(), DType::kF32, {rows, hidden});
}

int64_t OpInputs::CallsFor(int64_t copies) const {
  constexpr int64_t kLeast = 8;
  if (!is_on_gpu()) return 1;
  return (std::max(kLeast, copies) + copies - 1) / copies * copies;
}

void OpInputs::NextCall(const Step& step) const {
  if (is_on_gpu()) {
    ops().BeginLayer();
  } else {
    ops().BeginStep(step);
  }
}

// style.md's bounds are those of tests/gpu: by what the result is rounded to. `fast` rounds
// operands.
double OpInputs::bound(bool is_f32) const {
  if (ops().kv_dtype() == DType::kBf16 && !is_on_gpu()) return 1e-4;
  return is_f32 || !is_on_gpu() ? 1e-6 : 1e-5;
}

}  // namespace rose
