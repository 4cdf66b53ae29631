// The proof of a conversion: what became of every block of 128 x 128 numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace rose {

inline constexpr int64_t kReportBlock = 128;  // rows and columns; blocks at the edges are cut

struct BlockReport {
  static constexpr int kNoSpread = -1;  // all zero, or the source has no E8M0 scales

  int spread = kNoSpread;      // largest less smallest E8M0 exponent of its MXFP4 blocks that are
                               // not all zero
  int64_t inexact_values = 0;  // whose bits changed, the sign of a zero included
  double max_relative_error = 0;
};

// A matrix before and after, both decoded to f32.
struct MatrixComparison {
  std::span<const float> before;       // [rows, cols]
  std::span<const float> after;        // [rows, cols]
  std::span<const uint8_t> exponents;  // E8M0 [rows, cols/32] of `before`; empty if not MXFP4
  int64_t rows = 0;
  int64_t cols = 0;
};

// One report for each block, row by row: [ceil(rows/128), ceil(cols/128)].
std::vector<BlockReport> CompareBlocks(const MatrixComparison& matrix);

}  // namespace rose
