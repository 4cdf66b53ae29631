#include "bench/ops_check.h"

#include <algorithm>
#include <cmath>

#include "base/cpu.h"
#include "base/parallel_for.h"
#include "ops/cpu/cpu_ops.h"

namespace rose {
namespace {

constexpr int64_t kMostRows = 4;

// Rows [first, first + count) of axis 0.
Tensor RowsOf(const Tensor& x, int64_t first, int64_t count) {
  std::vector<int64_t> shape(x.shape().begin(), x.shape().end());
  auto* const at = static_cast<std::byte*>(x.raw()) + first * (x.bytes() / x.dim(0));
  shape[0] = count;
  return Tensor(at, x.dtype(), shape);
}

// The same of a matrix or a vector; `first` is at the border of a block of scales.
Weight RowsOf(const Weight& weight, int64_t first, int64_t count) {
  Weight rows = weight;
  rows.shape[0] = count;
  rows.data = RowsOf(weight.data, first, count);
  if (!weight.scales.empty()) {
    const WeightFormat& format = weight.format;
    rows.scales = RowsOf(weight.scales, format.ScaleRow(first), format.ScaleRows(count));
  }
  return rows;
}

}  // namespace

HostRows::HostRows(OpSet& ops, const Tensor& x, const std::vector<int64_t>& rows)
    : shape_(x.shape().begin(), x.shape().end()) {
  shape_[0] = std::ssize(rows);
  const int64_t width = x.elements() / std::max<int64_t>(1, x.dim(0));
  for (int64_t row : rows) {
    auto* const at = static_cast<std::byte*>(x.raw()) + row * width * ElementBytes(x.dtype());
    const Tensor host = ops.ToHost(Tensor(at, x.dtype(), {width}));
    for (int64_t i = 0; i < width; ++i) {
      values_.push_back(x.dtype() == DType::kBf16 ? ToFloat(host.data<Bf16>()[i])
                                                  : host.data<float>()[i]);
    }
  }
}

Tensor HostRows::tensor() {
  return Tensor(values_.data(), DType::kF32, shape_);
}

Tensor RowOf(const Tensor& x, int64_t row) {
  return RowsOf(x, row, 1);
}

std::vector<int64_t> SampleRows(int64_t rows) {
  std::vector<int64_t> sample;
  const int64_t count = std::min(rows, kMostRows);
  for (int64_t i = 0; i < count; ++i)
    sample.push_back(count == 1 ? 0 : i * (rows - 1) / (count - 1));
  return sample;
}

double WorstOneMinusCosine(const std::vector<float>& actual, const Tensor& expected) {
  ROSE_CHECK_EQ(std::ssize(actual), expected.elements());
  const int64_t rows = expected.dim(0);
  const int64_t width = expected.elements() / std::max<int64_t>(1, rows);
  double worst = 0;
  for (int64_t r = 0; r < rows; ++r) {
    double aa = 0, ee = 0, ae = 0;
    for (int64_t i = r * width; i < (r + 1) * width; ++i) {
      const double a = actual[i], e = expected.data<float>()[i];
      aa += a * a;
      ee += e * e;
      ae += a * e;
    }
    // Not so for NaN either.
    const double off = 1 - ae / std::sqrt(aa * ee);
    worst = off >= -1 && off <= 2 ? std::max(worst, off) : kWrong;
    // A cosine does not see the length.
    const double ratio = std::sqrt(aa / ee);
    if (!(ratio > 0.99 && ratio < 1.01)) worst = kWrong;
  }
  return worst;
}

std::vector<float> ReferenceProduct(const Tensor& x, const Weight& weight, const Weight& bias) {
  const int64_t tokens = x.dim(0), rows = weight.shape[0];
  constexpr int64_t kPiece = 512;
  std::vector<float> out(tokens * rows);
  ParallelFor(AvailableCpus(), (rows + kPiece - 1) / kPiece, [&](int64_t piece) {
    const int64_t first = piece * kPiece, count = std::min(kPiece, rows - first);
    CpuOps reference;
    const Tensor part = reference.Gemm(x, RowsOf(weight, first, count),
                                       bias.empty() ? bias : RowsOf(bias, first, count));
    for (int64_t t = 0; t < tokens; ++t)
      std::copy_n(part.data<float>() + t * count, count, out.data() + t * rows + first);
  });
  return out;
}

}  // namespace rose
