#include "checkpoint/scales.h"

#include <cmath>
#include <cstring>

namespace rose {
namespace {

bool IsBad(const Tensor& scales, int64_t index) {
  const uint8_t* bytes = static_cast<const uint8_t*>(scales.raw());
  if (scales.dtype() == DType::kU8) return bytes[index] == 255;
  float value = 0;
  std::memcpy(&value, bytes + index * sizeof(value), sizeof(value));  // may lie unaligned
  return !std::isfinite(value);
}

std::string IndexText(const Tensor& tensor, int64_t flat) {
  std::string text;
  for (int axis = tensor.rank() - 1; axis >= 0; --axis) {
    text = StrCat(flat % tensor.dim(axis), text.empty() ? "" : ", ", text);
    flat /= tensor.dim(axis);
  }
  return "[" + text + "]";
}

}  // namespace

std::string FindBadScale(const std::string& name, const Tensor& scales) {
  ROSE_CHECK(scales.dtype() == DType::kU8 || scales.dtype() == DType::kF32, scales.ToString());
  if (scales.dtype() == DType::kU8 && std::memchr(scales.raw(), 255, scales.bytes()) == nullptr)
    return "";  // as good as always, and fast
  int64_t first = -1, count = 0;
  for (int64_t index = 0; index < scales.elements(); ++index) {
    if (!IsBad(scales, index)) continue;
    if (count++ == 0) first = index;
  }
  if (count == 0) return "";
  return StrCat("tensor '", name, "' has ", count, " scale", count == 1 ? "" : "s",
                " that are NaN or infinite, the first at ", IndexText(scales, first));
}

}  // namespace rose
