// mxfp4: E2M1 nibbles, 32 along the input axis to one E8M0 scale (spec B.2; OCP Microscaling).
#include <algorithm>
#include <cmath>

#include "quant/formats.h"

namespace rose {
namespace {

constexpr int64_t kBlock = 32;
constexpr int64_t kBlockBytes = kBlock / 2;

// Code of the E2M1 number nearest to x, ties to the even code, saturating at 6. A NaN becomes 6:
// the format has none, and converters refuse one before it gets here.
uint8_t ToE2m1(float x) {
  const uint8_t sign = std::signbit(x) ? 8 : 0;
  const float magnitude = std::fabs(x);
  if (magnitude <= 0.25f) return sign | 0;
  if (magnitude < 0.75f) return sign | 1;
  if (magnitude <= 1.25f) return sign | 2;
  if (magnitude < 1.75f) return sign | 3;
  if (magnitude <= 2.5f) return sign | 4;
  if (magnitude < 3.5f) return sign | 5;
  if (magnitude <= 5.0f) return sign | 6;
  return sign | 7;
}

// The scale byte that OCP's conversion rule gives: the exponent of the largest magnitude, less the
// exponent of the largest E2M1 number (4 = 2^2). A block of zeros takes 127 (a scale of one).
uint8_t ScaleByte(std::span<const float> block) {
  float largest = 0;
  for (const float x : block) largest = std::fmax(largest, std::fabs(x));
  if (largest == 0) return 127;
  if (std::isinf(largest)) return 254;
  int exponent = 0;
  std::frexp(largest, &exponent);  // largest = f * 2^exponent, 0.5 <= f < 1
  const int byte = exponent - 1 - 2 + 127;
  return static_cast<uint8_t>(std::min(std::max(byte, 0), 254));
}

class Mxfp4Format : public Codec {
 public:
  const WeightFormat& format() const override { return kMxfp4Format; }
  std::string_view name() const override { return "mxfp4"; }

  Result<std::optional<StoredWeight>> Recognise(std::string_view stem,
                                                std::span<const int64_t> shape,
                                                const StoredLookup& lookup) const override {
    for (const char* separator : {"_", "."}) {  // Hugging Face's spelling, then OpenAI's
      const std::string blocks_name = StrCat(stem, separator, "blocks");
      const std::string scales_name = StrCat(stem, separator, "scales");
      const std::optional<StoredTensor> blocks = lookup(blocks_name);
      const std::optional<StoredTensor> scales = lookup(scales_name);
      if (!blocks && !scales) continue;
      if (!blocks)
        return InvalidArgument("tensor '", blocks_name, "' is missing beside its scales");
      if (!scales)
        return InvalidArgument("tensor '", scales_name, "' is missing beside its blocks");
      if (shape.back() % kBlock != 0)
        return InvalidArgument("tensor '", blocks_name, "': a row of ", shape.back(),
                               " numbers cannot be mxfp4, which needs a multiple of ", kBlock);
      StoredWeight stored = Describe(stem, shape);
      stored.data.name = blocks_name;
      stored.scales->name = scales_name;
      ROSE_RETURN_IF_ERROR(ExpectStored(*blocks, DType::kU8, stored.data.shape));
      ROSE_RETURN_IF_ERROR(ExpectStored(*scales, DType::kU8, stored.scales->shape));
      return std::optional<StoredWeight>(std::move(stored));
    }
    return std::optional<StoredWeight>();
  }

  StoredWeight Describe(std::string_view stem, std::span<const int64_t> shape) const override {
    ROSE_CHECK(shape.size() >= 2 && shape.back() % kBlock == 0, "mxfp4 of ", ShapeToString(shape));
    std::vector<int64_t> scales(shape.begin(), shape.end());
    scales.back() /= kBlock;
    std::vector<int64_t> blocks = scales;
    blocks.push_back(kBlockBytes);
    StoredWeight stored;
    stored.data = {StrCat(stem, "_blocks"), DType::kU8, std::move(blocks)};
    stored.scales = StoredTensor{StrCat(stem, "_scales"), DType::kU8, std::move(scales)};
    return stored;
  }

  void Pack(std::span<const float> values, int64_t rows, int64_t cols, std::vector<uint8_t>& data,
            std::vector<uint8_t>& scales) const override {
    ROSE_CHECK_EQ(static_cast<int64_t>(values.size()), rows * cols);
    ROSE_CHECK_EQ(cols % kBlock, 0);
    data.resize(values.size() / 2);
    scales.resize(values.size() / kBlock);
    for (size_t block = 0; block < scales.size(); ++block) {
      const std::span<const float> in = values.subspan(block * kBlock, kBlock);
      scales[block] = ScaleByte(in);
      const int exponent = scales[block] - 127;
      const float inverse = std::ldexp(1.0f, -exponent);
      uint8_t* out = data.data() + block * kBlockBytes;
      for (int64_t byte = 0; byte < kBlockBytes; ++byte) {
        const uint8_t low = ToE2m1(in[2 * byte] * inverse);
        const uint8_t high = ToE2m1(in[2 * byte + 1] * inverse);
        out[byte] = static_cast<uint8_t>(low | (high << 4));
      }
    }
  }

  void DecodeRow(const Weight& weight, int64_t expert, int64_t row,
                 std::span<float> out) const override {
    const int64_t blocks = static_cast<int64_t>(out.size()) / kBlock;
    const int64_t first = CheckedRow(weight, expert, row, out) * blocks;
    const uint8_t* in = weight.data.data<uint8_t>() + first * kBlockBytes;
    const uint8_t* scales = weight.scales.data<uint8_t>() + first;
    for (int64_t block = 0; block < blocks; ++block) {
      const float scale = E8m0ToFloat(scales[block]);
      float* to = out.data() + block * kBlock;
      for (int64_t byte = 0; byte < kBlockBytes; ++byte) {
        const uint8_t pair = in[block * kBlockBytes + byte];
        to[2 * byte] = kE2m1[pair & 15] * scale;
        to[2 * byte + 1] = kE2m1[pair >> 4] * scale;
      }
    }
  }
};

}  // namespace

const Codec& Mxfp4Codec() {
  static const Mxfp4Format codec;
  return codec;
}

}  // namespace rose
