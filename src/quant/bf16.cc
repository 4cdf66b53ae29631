// bf16: plain numbers. Matrices lie as [rows, cols]; a stack of experts is stored with the input
// axis first, [experts, cols, rows], as a dequantised Hugging Face checkpoint has it (spec B.6).
#include <cstring>

#include "quant/formats.h"

namespace rose {
namespace {

class Bf16Format : public Codec {
 public:
  const WeightFormat& format() const override { return kBf16Format; }
  std::string_view name() const override { return "bf16"; }

  Result<std::optional<StoredWeight>> Recognise(std::string_view stem,
                                                std::span<const int64_t> shape,
                                                const StoredLookup& lookup) const override {
    const std::optional<StoredTensor> data = lookup(stem);
    if (!data) return std::optional<StoredWeight>();
    StoredWeight stored = Describe(stem, shape);
    ROSE_RETURN_IF_ERROR(ExpectStored(*data, DType::kBf16, stored.data.shape));
    return std::optional<StoredWeight>(std::move(stored));
  }

  StoredWeight Describe(std::string_view stem, std::span<const int64_t> shape) const override {
    StoredWeight stored;
    stored.data = {std::string(stem), DType::kBf16, {shape.begin(), shape.end()}};
    stored.transposed = shape.size() == 3;
    if (stored.transposed) std::swap(stored.data.shape[1], stored.data.shape[2]);
    return stored;
  }

  void Pack(std::span<const float> values, int64_t rows, int64_t cols, std::vector<uint8_t>& data,
            std::vector<uint8_t>& scales) const override {
    ROSE_CHECK_EQ(static_cast<int64_t>(values.size()), rows * cols);
    data.resize(values.size() * sizeof(Bf16));
    scales.clear();
    for (size_t i = 0; i < values.size(); ++i) {
      const Bf16 x = ToBf16(values[i]);
      std::memcpy(data.data() + i * sizeof(x), &x, sizeof(x));
    }
  }

  void DecodeRow(const Weight& weight, int64_t expert, int64_t row,
                 std::span<float> out) const override {
    const int64_t cols = static_cast<int64_t>(out.size());
    const Bf16* in = weight.data.data<Bf16>() + CheckedRow(weight, expert, row, out) * cols;
    for (int64_t col = 0; col < cols; ++col) out[col] = ToFloat(in[col]);
  }
};

}  // namespace

const Codec& Bf16Codec() {
  static const Bf16Format codec;
  return codec;
}

}  // namespace rose
