// Shape checks with named sizes: a Dim takes its value at its first use, and every later use must
// agree. A mismatch is our bug (ROSE_CHECK) and names the tensor, the axis and both numbers.
#pragma once

#include <initializer_list>
#include <string_view>

#include "tensor/tensor.h"
#include "tensor/weight.h"

namespace rose {

struct Dim {
  std::string_view name;
  int64_t value = -1;  // -1 = not bound yet, so that a size of 0 binds too
};

// `what` is the tensor's name in messages. The shape must have as many axes as `dims`.
void ExpectShape(std::string_view what, const Tensor& tensor, DType dtype,
                 std::initializer_list<Dim*> dims);
// The same for a weight's logical shape; its format is not looked at.
void ExpectShape(std::string_view what, const Weight& weight, std::initializer_list<Dim*> dims);

}  // namespace rose
