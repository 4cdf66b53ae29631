// fp8-block: E4M3 numbers, one F32 scale for each 128 x 128 of them, value = number * scale. Blocks
// at the lower and right edge are cut: 2880 columns are 22 and a half. On disk: `<stem>` E4M3
// [.., rows, cols] beside `<stem>_scale_inv` F32, never transposed, for experts and matrices alike.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "quant/formats.h"

namespace rose {
namespace {

constexpr int64_t kBlock = 128;

int64_t Blocks(int64_t n) {
  return (n + kBlock - 1) / kBlock;
}

// The exponent of the smallest power of two that brings `largest` to 448 or below. NOTE: scales are
// powers of two, so that a scale rounds nothing: E4M3 keeps its relative precision, and numbers
// that need few bits (MXFP4's) come through unchanged. Not below 2^-126: kernels flush subnormals.
int ScaleExponent(float largest) {
  if (largest == 0) return 0;
  if (std::isinf(largest)) return 127;
  int exponent = 0;
  const float fraction = std::frexp(largest, &exponent);  // 448 = 0.875 * 2^9
  return std::max(fraction <= 0.875f ? exponent - 9 : exponent - 8, -126);
}

class Fp8BlockFormat : public Codec {
 public:
  Fp8BlockFormat() {
    for (int bits = 0; bits < 256; ++bits)
      values_[bits] = ToFloat(E4m3{static_cast<uint8_t>(bits)});
  }

  const WeightFormat& format() const override { return kFp8BlockFormat; }
  std::string_view name() const override { return "fp8-block"; }

  Result<std::optional<StoredWeight>> Recognise(std::string_view stem,
                                                std::span<const int64_t> shape,
                                                const StoredLookup& lookup) const override {
    const std::string scales_name = StrCat(stem, "_scale_inv");
    const std::optional<StoredTensor> data = lookup(stem);
    const std::optional<StoredTensor> scales = lookup(scales_name);
    // A bf16 tensor has the same name; the type and the scales tell the two apart.
    const bool is_fp8 = data && data->dtype == DType::kE4m3;
    if (!is_fp8 && !scales) return std::optional<StoredWeight>();
    if (!data) return InvalidArgument("tensor '", stem, "' is missing beside its scales");
    if (!scales) return InvalidArgument("tensor '", scales_name, "' is missing beside its data");
    StoredWeight stored = Describe(stem, shape);
    ROSE_RETURN_IF_ERROR(ExpectStored(*data, DType::kE4m3, stored.data.shape));
    ROSE_RETURN_IF_ERROR(ExpectStored(*scales, DType::kF32, stored.scales->shape));
    return std::optional<StoredWeight>(std::move(stored));
  }

  StoredWeight Describe(std::string_view stem, std::span<const int64_t> shape) const override {
    ROSE_CHECK(shape.size() >= 2, "fp8-block of ", ShapeToString(shape));
    std::vector<int64_t> scales(shape.begin(), shape.end());
    for (size_t axis = scales.size() - 2; axis < scales.size(); ++axis)
      scales[axis] = Blocks(scales[axis]);
    StoredWeight stored;
    stored.data = {std::string(stem), DType::kE4m3, {shape.begin(), shape.end()}};
    stored.scales = StoredTensor{StrCat(stem, "_scale_inv"), DType::kF32, std::move(scales)};
    return stored;
  }

  void Pack(std::span<const float> values, int64_t rows, int64_t cols, std::vector<uint8_t>& data,
            std::vector<uint8_t>& scales) const override {
    ROSE_CHECK_EQ(static_cast<int64_t>(values.size()), rows * cols);
    data.resize(values.size());
    scales.resize(Blocks(rows) * Blocks(cols) * sizeof(float));
    for (int64_t block = 0; block < Blocks(rows) * Blocks(cols); ++block) {
      const int64_t row0 = block / Blocks(cols) * kBlock, row1 = std::min(rows, row0 + kBlock);
      const int64_t col0 = block % Blocks(cols) * kBlock, col1 = std::min(cols, col0 + kBlock);
      float largest = 0;
      for (int64_t row = row0; row < row1; ++row)
        for (int64_t col = col0; col < col1; ++col)
          largest = std::fmax(largest, std::fabs(values[row * cols + col]));
      const int exponent = ScaleExponent(largest);
      const float scale = std::ldexp(1.0f, exponent), inverse = std::ldexp(1.0f, -exponent);
      std::memcpy(scales.data() + block * sizeof(float), &scale, sizeof(scale));
      for (int64_t row = row0; row < row1; ++row)
        for (int64_t col = col0; col < col1; ++col)
          data[row * cols + col] = ToE4m3(values[row * cols + col] * inverse).bits;
    }
  }

  void DecodeRow(const Weight& weight, int64_t expert, int64_t row,
                 std::span<float> out) const override {
    const int64_t cols = static_cast<int64_t>(out.size());
    const MatrixStack stack = AsMatrixStack(weight.shape);
    const uint8_t* in = static_cast<const uint8_t*>(weight.data.raw()) +
                        CheckedRow(weight, expert, row, out) * cols;
    const WeightFormat& format = weight.format;
    const float* scales =
        weight.scales.data<float>() +
        (expert * format.ScaleRows(stack.rows) + format.ScaleRow(row)) * Blocks(cols);
    for (int64_t col = 0; col < cols; ++col) out[col] = values_[in[col]] * scales[col / kBlock];
  }

 private:
  std::array<float, 256> values_;  // of every E4M3 code
};

}  // namespace

const Codec& Fp8BlockCodec() {
  static const Fp8BlockFormat codec;
  return codec;
}

}  // namespace rose
