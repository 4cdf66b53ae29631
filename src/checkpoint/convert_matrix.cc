#include "checkpoint/convert_matrix.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "checkpoint/transpose.h"

namespace rose {
namespace {

// One matrix [rows, cols] in a format, in memory of its own or in a mapped file.
Weight AsWeight(const WeightFormat& format, int64_t rows, int64_t cols, uint8_t* data,
                uint8_t* scales) {
  const std::vector<int64_t> shape = {rows, cols};
  const StoredWeight stored = CodecFor(format).Describe("", shape);
  Weight weight{format, shape, Tensor(data, stored.data.dtype, stored.data.shape), {}};
  if (stored.scales) weight.scales = Tensor(scales, stored.scales->dtype, stored.scales->shape);
  return weight;
}

std::vector<float> Decode(const Weight& weight) {
  const int64_t rows = weight.shape[0], cols = weight.shape[1];
  std::vector<float> values(rows * cols);
  for (int64_t row = 0; row < rows; ++row)
    DecodeRow(weight, 0, row, std::span(values).subspan(row * cols, cols));
  return values;
}

// The bytes of matrix `expert` of a stored tensor, copied so that they are aligned.
std::vector<uint8_t> Slice(const Checkpoint& checkpoint, const StoredTensor& stored, int64_t expert,
                           int64_t experts) {
  const Tensor view = checkpoint.Data(stored.name);
  const int64_t bytes = view.bytes() / experts;
  const uint8_t* from = static_cast<const uint8_t*>(view.raw()) + expert * bytes;
  return std::vector<uint8_t>(from, from + bytes);
}

Status CheckFinite(const std::vector<float>& values, const ConvertJob& job, int64_t expert) {
  const int64_t cols = job.shape.back();
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    const int64_t at = static_cast<int64_t>(i);
    return InvalidArgument("'", job.stem, "' expert ", expert, ", row ", at / cols, ", column ",
                           at % cols, " is ", values[i], ", which cannot be converted");
  }
  return Status();
}

}  // namespace

Result<ConvertedMatrix> ConvertMatrix(const Checkpoint& checkpoint, const ConvertJob& job,
                                      const Codec& to, int64_t expert) {
  const int64_t rows = job.shape[job.shape.size() - 2], cols = job.shape.back();
  const int64_t experts = job.shape.size() == 3 ? job.shape[0] : 1;
  std::vector<uint8_t> data = Slice(checkpoint, job.source.data, expert, experts);
  std::vector<uint8_t> scales;
  if (job.source.scales) scales = Slice(checkpoint, *job.source.scales, expert, experts);
  if (job.source.transposed) {
    std::vector<uint8_t> turned(data.size());
    TransposePairs(data.data(), cols, rows, turned.data());
    data = std::move(turned);
  }
  const WeightFormat& from = job.from->format();
  const std::vector<float> before = Decode(AsWeight(from, rows, cols, data.data(), scales.data()));
  ROSE_RETURN_IF_ERROR(CheckFinite(before, job, expert));

  ConvertedMatrix result;
  to.Pack(before, rows, cols, result.data, result.scales);
  const std::vector<float> after =
      Decode(AsWeight(to.format(), rows, cols, result.data.data(), result.scales.data()));
  MatrixComparison comparison{before, after, {}, rows, cols};
  if (from.packing == Packing::kMxfp4) comparison.exponents = scales;
  result.blocks = CompareBlocks(comparison);
  if (job.target.transposed) {
    std::vector<uint8_t> turned(result.data.size());
    TransposePairs(result.data.data(), rows, cols, turned.data());
    result.data = std::move(turned);
  }
  return result;
}

}  // namespace rose
