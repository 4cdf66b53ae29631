// Weights as kernels take them.
#pragma once

#include "kernels/weight.h"
#include "tensor/weight.h"

namespace rose {

// A matrix [rows, cols], or a stack of them, in the layout of its packing.
inline WeightView ViewOf(const Weight& weight) {
  const size_t rank = weight.shape.size();
  ROSE_CHECK(rank == 2 || rank == 3, "a weight of rank ", rank);
  return {.data = weight.data.raw(),
          .scales = weight.scales.raw(),
          .packing = weight.format.packing,
          .block_rows = weight.format.block_rows,
          .woven = weight.format.woven,
          .rows = weight.shape[rank - 2],
          .cols = weight.shape[rank - 1]};
}

// A vector (norm, bias, sinks); null where there is none.
inline const Bf16* VectorOf(const Weight& weight) {
  if (weight.empty()) return nullptr;
  ROSE_CHECK(weight.format == kBf16Format, "a vector in format ", weight.format.ToString());
  return weight.data.data<Bf16>();
}

}  // namespace rose
