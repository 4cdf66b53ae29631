// What becomes of a stack of experts on its way to the device.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "kernels/experts/experts.h"
#include "tensor/weight.h"

namespace rose {

// The packed form of a stack [experts, rows, cols], without an address; kUnsupported if there is
// none.
inline Result<PackedExperts> PackedShapeOf(const Weight& stack) {
  const WeightFormat& format = stack.format;
  if (format.packing == Packing::kFp8Block && format.block_rows != 128) {
    return Unsupported("experts in fp8-block with blocks of ", format.block_rows,
                       " rows; --device cpu computes them");
  }
  return PackedExperts{.packing = format.packing,
                       .experts = static_cast<int>(stack.shape[0]),
                       .rows = static_cast<int>(stack.shape[1]),
                       .cols = static_cast<int>(stack.shape[2])};
}

// kUnsupported where packing found an E8M0 scale that kernels cannot take.
inline Status CheckLargestScale(const WeightFormat& format, int32_t largest) {
  if (format.packing != Packing::kMxfp4 || largest <= kLargestE8m0) return Status();
  return Unsupported("experts with an MXFP4 scale of 2^", largest - 127, "; the kernels take 2^",
                     kLargestE8m0 - 127, " at most; --device cpu computes them");
}

}  // namespace rose
