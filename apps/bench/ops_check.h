// How `rose bench ops` compares results with the reference: some rows, by the cosine.
#pragma once

#include <vector>

#include "ops/ops.h"

namespace rose {

// Rows of a tensor in f32, in memory of the host.
class HostRows {
 public:
  // Rows `rows` (of axis 0) of `x`, F32 or BF16, wherever `ops` has it.
  HostRows(OpSet& ops, const Tensor& x, const std::vector<int64_t>& rows);

  // Of x's rank, `rows` long.
  Tensor tensor();
  const std::vector<float>& values() const { return values_; }

 private:
  std::vector<float> values_;
  std::vector<int64_t> shape_;
};

// Row `row` of axis 0, as a tensor of one row.
Tensor RowOf(const Tensor& x, int64_t row);

// Spread over [0, rows), first and last among them.
std::vector<int64_t> SampleRows(int64_t rows);

// The largest 1 - cosine of rows of `actual` and `expected` [rows, ..]; kWrong where a value is not
// finite, or the lengths of two rows differ by a hundredth.
inline constexpr double kWrong = 2;
double WorstOneMinusCosine(const std::vector<float>& actual, const Tensor& expected);

// The reference's product of few rows, on all processors: x F32 [rows, cols] -> [rows, weight
// rows].
std::vector<float> ReferenceProduct(const Tensor& x, const Weight& weight, const Weight& bias);

}  // namespace rose
