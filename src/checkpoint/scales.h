// Scales that are not numbers poison everything they touch; loaders and converters refuse them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "tensor/tensor.h"

namespace rose {

// The first scale of `scales` (U8 = E8M0: 255; F32: not finite) as a sentence that names the tensor
// and the index, and how many there are; empty if all are numbers.
std::string FindBadScale(const std::string& name, const Tensor& scales);

// Whether there is one among some of a tensor's elements, which begin where an element begins.
bool HasBadScale(DType dtype, std::span<const uint8_t> bytes);

// kInvalidArgument with those sentences.
Status BadScales(const std::string& folder, const std::vector<std::string>& sentences);

}  // namespace rose
