// Which made-up numbers a row of a model's table gets.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "checkpoint/tensor_spec.h"
#include "tensor/random_weight.h"

namespace rose {

struct RandomOptions {
  uint64_t seed = 1;
  WeightFormat experts = kMxfp4Format;  // of kExperts rows; all others are bf16
  // How tokens choose experts. 0: each like independent even draws. s > 0: about as if expert
  // number r, in an order of the layer's own, were drawn with probability 1 / r^s, without putting
  // back.
  double zipf = 0;
};

// One for each row of `table`. kInvalidArgument if a format cannot hold a row, naming it, or if the
// model's router cannot be skewed.
Result<std::vector<RandomRecipe>> RandomRecipes(const std::vector<TensorSpec>& table,
                                                const RandomOptions& options);

}  // namespace rose
