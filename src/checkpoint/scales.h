// Scales that are not numbers poison everything they touch; loaders and converters refuse them.
#pragma once

#include <string>

#include "tensor/tensor.h"

namespace rose {

// The first scale of `scales` (U8 = E8M0: 255; F32: not finite) as a sentence that names the tensor
// and the index, and how many there are; empty if all are numbers.
std::string FindBadScale(const std::string& name, const Tensor& scales);

}  // namespace rose
