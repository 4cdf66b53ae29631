#include <algorithm>
#include <array>

#include "quant/formats.h"

namespace rose {

std::span<const Codec* const> AllCodecs() {
  // fp8-block before bf16: both may store a weight under its bare stem.
  static const std::array<const Codec*, 3> codecs = {&Mxfp4Codec(), &Fp8BlockCodec(), &Bf16Codec()};
  return codecs;
}

const Codec& CodecFor(const WeightFormat& format) {
  for (const Codec* codec : AllCodecs()) {
    if (codec->format().packing == format.packing) return *codec;
  }
  ROSE_CHECK(false, "no codec for ", format.ToString());
}

const Codec* FindCodec(std::string_view name) {
  for (const Codec* codec : AllCodecs()) {
    if (codec->name() == name) return codec;
  }
  return nullptr;
}

MatrixStack AsMatrixStack(std::span<const int64_t> shape) {
  ROSE_CHECK(!shape.empty() && shape.size() <= 3, "a weight of shape ", ShapeToString(shape));
  MatrixStack stack;
  stack.cols = shape.back();
  if (shape.size() >= 2) stack.rows = shape[shape.size() - 2];
  if (shape.size() == 3) stack.experts = shape[0];
  return stack;
}

Status ExpectStored(const StoredTensor& stored, DType dtype, std::span<const int64_t> shape) {
  const std::span<const int64_t> actual(stored.shape);
  if (stored.dtype == dtype && std::equal(actual.begin(), actual.end(), shape.begin(), shape.end()))
    return Status();
  return InvalidArgument("tensor '", stored.name, "' is ", DTypeName(stored.dtype), " ",
                         ShapeToString(actual), ", expected ", DTypeName(dtype), " ",
                         ShapeToString(shape));
}

int64_t CheckedRow(const Weight& weight, int64_t expert, int64_t row, std::span<const float> out) {
  const MatrixStack stack = AsMatrixStack(weight.shape);
  ROSE_CHECK(expert >= 0 && expert < stack.experts, "expert ", expert, " of ", stack.experts);
  ROSE_CHECK(row >= 0 && row < stack.rows, "row ", row, " of ", stack.rows);
  ROSE_CHECK_EQ(static_cast<int64_t>(out.size()), stack.cols);
  return expert * stack.rows + row;
}

}  // namespace rose
