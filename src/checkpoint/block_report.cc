#include "checkpoint/block_report.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"

namespace rose {
namespace {

constexpr int64_t kMxBlock = 32;

struct Area {
  int64_t row0, row1, col0, col1;
};

int Spread(const MatrixComparison& matrix, const Area& area) {
  int smallest = 255, largest = -1;
  for (int64_t row = area.row0; row < area.row1; ++row) {
    for (int64_t col = area.col0; col < area.col1; col += kMxBlock) {
      const std::span<const float> block = matrix.before.subspan(row * matrix.cols + col, kMxBlock);
      // The scale of zeros says nothing.
      if (std::all_of(block.begin(), block.end(), [](float x) { return x == 0; })) continue;
      const int exponent = matrix.exponents[(row * matrix.cols + col) / kMxBlock];
      smallest = std::min(smallest, exponent);
      largest = std::max(largest, exponent);
    }
  }
  return largest < 0 ? BlockReport::kNoSpread : largest - smallest;
}

BlockReport Compare(const MatrixComparison& matrix, const Area& area) {
  BlockReport report;
  for (int64_t row = area.row0; row < area.row1; ++row) {
    for (int64_t col = area.col0; col < area.col1; ++col) {
      const float before = matrix.before[row * matrix.cols + col];
      const float after = matrix.after[row * matrix.cols + col];
      if (std::bit_cast<uint32_t>(before) == std::bit_cast<uint32_t>(after)) continue;
      ++report.inexact_values;
      const double error = std::fabs(static_cast<double>(after) - before);
      const double relative = before != 0 ? error / std::fabs(static_cast<double>(before)) : error;
      report.max_relative_error = std::max(report.max_relative_error, relative);
    }
  }
  if (!matrix.exponents.empty()) report.spread = Spread(matrix, area);
  return report;
}

}  // namespace

std::vector<BlockReport> CompareBlocks(const MatrixComparison& matrix) {
  const int64_t values = matrix.rows * matrix.cols;
  ROSE_CHECK_EQ(static_cast<int64_t>(matrix.before.size()), values);
  ROSE_CHECK_EQ(static_cast<int64_t>(matrix.after.size()), values);
  if (!matrix.exponents.empty())
    ROSE_CHECK_EQ(static_cast<int64_t>(matrix.exponents.size()), values / kMxBlock);
  std::vector<BlockReport> reports;
  for (int64_t row = 0; row < matrix.rows; row += kReportBlock)
    for (int64_t col = 0; col < matrix.cols; col += kReportBlock)
      reports.push_back(Compare(matrix, {row, std::min(matrix.rows, row + kReportBlock), col,
                                         std::min(matrix.cols, col + kReportBlock)}));
  return reports;
}

}  // namespace rose
