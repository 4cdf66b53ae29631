// Tensor: a dense, row-major view of memory that somebody else owns. Copying one copies the view.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "base/check.h"
#include "tensor/dtype.h"

namespace rose {

class Tensor {
 public:
  static constexpr int kMaxRank = 4;

  Tensor() = default;
  Tensor(void* data, DType dtype, std::span<const int64_t> shape);
  Tensor(void* data, DType dtype, std::initializer_list<int64_t> shape)
      : Tensor(data, dtype, std::span<const int64_t>(shape.begin(), shape.size())) {}

  bool empty() const { return rank_ == 0; }
  DType dtype() const { return dtype_; }
  int rank() const { return rank_; }
  int64_t dim(int axis) const {
    ROSE_CHECK(axis >= 0 && axis < rank_, "axis ", axis, " of rank ", rank_);
    return shape_[axis];
  }
  std::span<const int64_t> shape() const { return {shape_.data(), static_cast<size_t>(rank_)}; }
  int64_t elements() const;
  int64_t bytes() const { return elements() * ElementBytes(dtype_); }

  void* raw() const { return data_; }
  // The elements as T, whose size must be that of the element type.
  template <typename T>
  T* data() const {
    ROSE_CHECK_EQ(static_cast<int64_t>(sizeof(T)), ElementBytes(dtype_));
    return static_cast<T*>(data_);
  }

  // "BF16 [3, 2880]", for messages.
  std::string ToString() const;

 private:
  void* data_ = nullptr;
  DType dtype_ = DType::kF32;
  int rank_ = 0;
  std::array<int64_t, kMaxRank> shape_{};
};

std::string ShapeToString(std::span<const int64_t> shape);  // "[3, 2880]"

}  // namespace rose
