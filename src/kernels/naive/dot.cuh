// What the naive products share: a warp's inner product, and the shape of their grid.
#pragma once

#include <type_traits>

#include "device/launch.h"
#include "kernels/weight.cuh"

namespace rose {

constexpr int kNaiveWarps = 8;
constexpr int kNaiveThreads = kNaiveWarps * 32;

// One CTA for kNaiveWarps rows of a token.
inline LaunchShape NaiveShape(int64_t tokens, int64_t rows) {
  return {.grid = dim3(static_cast<unsigned>(tokens),
                       static_cast<unsigned>((rows + kNaiveWarps - 1) / kNaiveWarps)),
          .block = dim3(kNaiveThreads)};
}

// x . row of the weight, in every lane of the warp.
template <Packing kPacking>
__device__ float WarpDot(const Bf16* x, const WeightView& w, int64_t stack, int64_t row) {
  float sum = 0;
  for (int64_t col = threadIdx.x % 32; col < w.cols; col += 32) {
    sum += Widen(x[col].bits) * ElementOf<kPacking>(w, stack, row, col);
  }
  return WarpSum(sum);
}

// Calls `launch` with the packing as a constant.
template <typename LaunchFor>
void DispatchPacking(Packing packing, LaunchFor launch) {
  switch (packing) {
    case Packing::kBf16:
      return launch(std::integral_constant<Packing, Packing::kBf16>());
    case Packing::kMxfp4:
      return launch(std::integral_constant<Packing, Packing::kMxfp4>());
    case Packing::kFp8Block:
      return launch(std::integral_constant<Packing, Packing::kFp8Block>());
  }
}

}  // namespace rose
