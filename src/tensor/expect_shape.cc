#include "tensor/expect_shape.h"

namespace rose {
namespace {

void ExpectDims(std::string_view what, std::span<const int64_t> shape,
                std::initializer_list<Dim*> dims) {
  ROSE_CHECK(shape.size() == dims.size(), what, ": rank is ", shape.size(), ", expected ",
             dims.size());
  size_t axis = 0;
  for (Dim* dim : dims) {
    if (dim->value < 0) dim->value = shape[axis];
    ROSE_CHECK(shape[axis] == dim->value, what, ": ", dim->name, "=", dim->value, " but axis ",
               axis, " is ", shape[axis]);
    ++axis;
  }
}

}  // namespace

void ExpectShape(std::string_view what, const Tensor& tensor, DType dtype,
                 std::initializer_list<Dim*> dims) {
  ROSE_CHECK(!tensor.empty(), what, " is missing");
  ROSE_CHECK(tensor.dtype() == dtype, what, ": type is ", DTypeName(tensor.dtype()), ", expected ",
             DTypeName(dtype));
  ExpectDims(what, tensor.shape(), dims);
}

void ExpectShape(std::string_view what, const Weight& weight, std::initializer_list<Dim*> dims) {
  ROSE_CHECK(!weight.empty(), what, " is missing");
  ExpectDims(what, weight.shape, dims);
}

}  // namespace rose
