#include "ops/cpu_fast/kernels.h"

namespace rose {

MatrixView MatrixOf(const Weight& weight, int64_t expert) {
  const size_t rank = weight.shape.size();
  ROSE_CHECK(rank == 2 || rank == 3, "matrix of shape ", ShapeToString(weight.shape));
  const int64_t experts = rank == 3 ? weight.shape[0] : 1;
  ROSE_CHECK(expert >= 0 && expert < experts, "expert ", expert, " of ", experts);
  MatrixView view{.format = weight.format,
                  .data = static_cast<const uint8_t*>(weight.data.raw()),
                  .scales = nullptr,
                  .rows = weight.shape[rank - 2],
                  .cols = weight.shape[rank - 1]};
  view.data += weight.data.bytes() / experts * expert;
  if (!weight.scales.empty()) {
    view.scales =
        static_cast<const uint8_t*>(weight.scales.raw()) + weight.scales.bytes() / experts * expert;
  }
  return view;
}

int64_t AttentionScratch(const AttentionShape& shape, int64_t rows) {
  const int64_t group = shape.heads / shape.kv_heads;
  // Sum, largest and accumulator of every row and head, and the scores of one page of a row.
  return rows * group * (2 + shape.head_dim) + group * KvLayout::kPageSize;
}

}  // namespace rose
