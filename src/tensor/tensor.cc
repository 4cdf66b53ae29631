#include "tensor/tensor.h"

namespace rose {

Tensor::Tensor(void* data, DType dtype, std::span<const int64_t> shape)
    : data_(data), dtype_(dtype), rank_(static_cast<int>(shape.size())) {
  ROSE_CHECK_LE(rank_, kMaxRank);
  for (int axis = 0; axis < rank_; ++axis) {
    ROSE_CHECK_GE(shape[axis], 0);
    shape_[axis] = shape[axis];
  }
}

int64_t Tensor::elements() const {
  if (rank_ == 0) return 0;
  int64_t n = 1;
  for (int axis = 0; axis < rank_; ++axis) n *= shape_[axis];
  return n;
}

std::string Tensor::ToString() const {
  return StrCat(DTypeName(dtype_), " ", ShapeToString(shape()));
}

std::string ShapeToString(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (axis > 0) text += ", ";
    text += std::to_string(shape[axis]);
  }
  return text + "]";
}

}  // namespace rose
