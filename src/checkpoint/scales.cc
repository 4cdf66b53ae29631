#include "checkpoint/scales.h"

#include <cmath>
#include <cstring>

#include "checkpoint/shards.h"

namespace rose {
namespace {

bool IsBad(DType dtype, const uint8_t* bytes, int64_t index) {
  if (dtype == DType::kU8) return bytes[index] == 255;
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

bool HasBadScale(DType dtype, std::span<const uint8_t> bytes) {
  ROSE_CHECK(dtype == DType::kU8 || dtype == DType::kF32, DTypeName(dtype));
  if (dtype == DType::kU8) return std::memchr(bytes.data(), 255, bytes.size()) != nullptr;
  const int64_t elements = std::ssize(bytes) / ElementBytes(dtype);
  for (int64_t index = 0; index < elements; ++index)
    if (IsBad(dtype, bytes.data(), index)) return true;
  return false;
}

std::string FindBadScale(const std::string& name, const Tensor& scales) {
  const uint8_t* bytes = static_cast<const uint8_t*>(scales.raw());
  if (!HasBadScale(scales.dtype(), {bytes, static_cast<size_t>(scales.bytes())})) return "";
  int64_t first = -1, count = 0;
  for (int64_t index = 0; index < scales.elements(); ++index) {
    if (!IsBad(scales.dtype(), bytes, index)) continue;
    if (count++ == 0) first = index;
  }
  return StrCat("tensor '", name, "' has ", count, " scale", count == 1 ? "" : "s",
                " that are NaN or infinite, the first at ", IndexText(scales, first));
}

Status BadScales(const std::string& folder, const std::vector<std::string>& sentences) {
  return InvalidArgument(folder, ": scales that are not numbers", NameList(sentences));
}

}  // namespace rose
