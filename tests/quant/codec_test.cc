#include "quant/codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>

namespace rose {
namespace {

// A matrix in a format, with the memory it refers to.
struct Packed {
  Packed(const WeightFormat& format, const std::vector<float>& values, int64_t rows, int64_t cols) {
    CodecFor(format).Pack(values, rows, cols, data, scales);
    Bind(format, rows, cols);
  }
  Packed(std::vector<uint8_t> blocks, std::vector<uint8_t> scale_bytes, int64_t rows, int64_t cols)
      : data(std::move(blocks)), scales(std::move(scale_bytes)) {
    Bind(kMxfp4Format, rows, cols);
  }

  void Bind(const WeightFormat& format, int64_t rows, int64_t cols) {
    const std::vector<int64_t> shape = {rows, cols};
    const StoredWeight stored = CodecFor(format).Describe("w", shape);
    weight = {format, shape, Tensor(data.data(), stored.data.dtype, stored.data.shape), {}};
    EXPECT_EQ(weight.data.bytes(), static_cast<int64_t>(data.size()));
    if (!stored.scales) return;
    weight.scales = Tensor(scales.data(), stored.scales->dtype, stored.scales->shape);
    EXPECT_EQ(weight.scales.bytes(), static_cast<int64_t>(scales.size()));
  }

  std::vector<float> Decode() const {
    const int64_t rows = weight.shape[0], cols = weight.shape[1];
    std::vector<float> out(rows * cols, std::nanf(""));
    for (int64_t row = 0; row < rows; ++row)
      DecodeRow(weight, 0, row, std::span(out).subspan(row * cols, cols));
    return out;
  }

  std::vector<uint8_t> data, scales;
  Weight weight;
};

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Blocks with all sixteen nibbles twice, element i being nibble i % 16.
std::vector<uint8_t> AllNibbles() {
  std::vector<uint8_t> block(16);
  for (int byte = 0; byte < 16; ++byte)
    block[byte] = static_cast<uint8_t>(2 * byte % 16 | (2 * byte + 1) % 16 << 4);
  return block;
}

TEST(CodecTest, SpecVector) {
  // Spec A.8: bytes 10 32 .. FE and eight zeros, scale byte 120.
  std::vector<uint8_t> block = {0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE};
  block.resize(16);
  const std::vector<float> values = Packed(block, {120}, 1, 32).Decode();
  const std::vector<float> units = {0, 1, 2, 3, 4, 6, 8, 12};
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(values[i], std::ldexp(units[i], -8));
    EXPECT_EQ(values[8 + i], -std::ldexp(units[i], -8));
  }
  EXPECT_TRUE(std::signbit(values[8]));
  for (int i = 16; i < 32; ++i) EXPECT_EQ(values[i], 0.0f);
}

TEST(Case077, ScaleBytesAreExponentsWithBias127) {
  EXPECT_EQ(2 * 0.5f * E8m0ToFloat(125), 0.25f);
  for (const int byte : {0, 1, 125, 126, 127, 128, 129, 253, 254}) {
    const std::vector<float> values =
        Packed(AllNibbles(), {static_cast<uint8_t>(byte)}, 1, 32).Decode();
    for (int i = 0; i < 32; ++i) {
      const float right =
          static_cast<float>(std::ldexp(static_cast<double>(kE2m1[i % 16]), byte - 127));
      EXPECT_EQ(values[i], right) << "byte " << byte << " nibble " << i % 16;
      EXPECT_EQ(std::signbit(values[i]), i % 16 >= 8);
    }
  }
  EXPECT_TRUE(std::isnan(E8m0ToFloat(255)));
  const auto nibble2 = [](uint8_t byte) { return Packed(AllNibbles(), {byte}, 1, 32).Decode()[2]; };
  EXPECT_EQ(nibble2(125), 0.25f);
  EXPECT_EQ(nibble2(127), 1.0f);
  EXPECT_EQ(nibble2(129), 4.0f);
}

TEST(CodecTest, E8m0IsLdexpForEveryByte) {
  for (int byte = 0; byte < 255; ++byte)
    EXPECT_EQ(E8m0ToFloat(static_cast<uint8_t>(byte)), std::ldexp(1.0f, byte - 127));
}

TEST(CodecTest, E4m3RoundsToTheNearestEven) {
  // Against a search over all codes, at every code, every midpoint and both its neighbours.
  std::map<float, int> codes;  // magnitude -> code
  for (int code = 0; code < 0x7f; ++code) codes[ToFloat(E4m3{static_cast<uint8_t>(code)})] = code;
  ASSERT_EQ(codes.size(), 127u);
  ASSERT_EQ(codes.rbegin()->first, 448.0f);
  for (auto low = codes.begin(), high = std::next(low); high != codes.end(); ++low, ++high) {
    EXPECT_EQ(ToE4m3(low->first).bits, low->second);
    EXPECT_EQ(ToE4m3(-low->first).bits, low->second | 0x80);
    const float middle = (low->first + high->first) / 2;
    EXPECT_EQ(ToE4m3(middle).bits, low->second % 2 == 0 ? low->second : high->second) << middle;
    EXPECT_EQ(ToE4m3(std::nextafter(middle, 0.0f)).bits, low->second) << middle;
    EXPECT_EQ(ToE4m3(std::nextafter(middle, 500.0f)).bits, high->second) << middle;
  }
  EXPECT_EQ(ToE4m3(448.0f).bits, 0x7e);
  EXPECT_EQ(ToE4m3(1e30f).bits, 0x7e);
  EXPECT_EQ(ToE4m3(-std::numeric_limits<float>::infinity()).bits, 0xfe);
  EXPECT_EQ(ToE4m3(std::nanf("")).bits & 0x7f, 0x7f);
  EXPECT_EQ(ToE4m3(1e-30f).bits, 0);
}

TEST(CodecTest, Mxfp4PacksWhatItDecodes) {
  // Every scale byte whose values fit f32, full range of nibbles: values come back bit for bit, and
  // so do bytes where the block holds a 4 or a 6.
  for (int byte = 0; byte <= 252; ++byte) {
    const Packed given(AllNibbles(), {static_cast<uint8_t>(byte)}, 1, 32);
    const std::vector<float> values = given.Decode();
    const Packed again(kMxfp4Format, values, 1, 32);
    EXPECT_TRUE(SameBits(again.Decode(), values)) << byte;
    EXPECT_EQ(again.scales[0], byte);
    EXPECT_EQ(again.data, given.data);
  }
}

TEST(CodecTest, Mxfp4RoundsByTheOcpRule) {
  // Largest magnitude 6 -> scale 1. Midpoints go to the even code.
  const std::vector<std::pair<float, float>> cases = {
      {0.2f, 0},     {0.25f, 0}, {0.26f, 0.5f},  {0.74f, 0.5f}, {0.75f, 1},  {1.25f, 1},
      {1.26f, 1.5f}, {1.75f, 2}, {2.5f, 2},      {2.51f, 3},    {3.49f, 3},  {3.5f, 4},
      {5.0f, 4},     {5.01f, 6}, {-0.2f, -0.0f}, {-0.75f, -1},  {-2.6f, -3}, {-5.0f, -4}};
  std::vector<float> values(32, 0.0f);
  for (size_t i = 0; i < cases.size(); ++i) values[i] = cases[i].first;
  values[31] = 6.0f;
  const Packed packed(kMxfp4Format, values, 1, 32);
  EXPECT_EQ(packed.scales[0], 127);
  const std::vector<float> decoded = packed.Decode();
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(decoded[i], cases[i].second) << cases[i].first;
    EXPECT_EQ(std::signbit(decoded[i]), std::signbit(cases[i].first));
  }
  values[31] = 7.9f;  // the exponent of the largest decides: 7.9 saturates to 6
  EXPECT_EQ(Packed(kMxfp4Format, values, 1, 32).Decode()[31], 6.0f);
  values[31] = 8.0f;
  EXPECT_EQ(Packed(kMxfp4Format, values, 1, 32).scales[0], 128);
  // Blocks are apart from each other, and a block of zeros keeps its signs.
  std::vector<float> two(64, -0.0f);
  two[40] = 1e-3f;
  const Packed zeros(kMxfp4Format, two, 1, 64);
  EXPECT_EQ(zeros.scales[0], 127);
  EXPECT_TRUE(std::signbit(zeros.Decode()[0]));
  EXPECT_NEAR(zeros.Decode()[40], 1e-3f, 1e-4f);
}

TEST(CodecTest, Fp8BlockHasHalfBlocksAtTheEdges) {
  // 2880 columns are 22.5 blocks; rows 200 are 1.6.
  const int64_t rows = 200, cols = 2880;
  const StoredWeight stored =
      CodecFor(kFp8BlockFormat).Describe("x.weight", std::vector<int64_t>{32, rows, cols});
  EXPECT_EQ(stored.data.name, "x.weight");
  EXPECT_EQ(stored.scales->name, "x.weight_scale_inv");
  EXPECT_EQ(stored.scales->shape, (std::vector<int64_t>{32, 2, 23}));
  // Each block has its own magnitude; the numbers are whole multiples that E4M3 holds.
  std::vector<float> values(rows * cols);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t col = 0; col < cols; ++col)
      values[row * cols + col] = std::ldexp(static_cast<float>((row + col) % 15 - 7),
                                            static_cast<int>(row / 128 * 40 + col / 128 - 30));
  const Packed packed(kFp8BlockFormat, values, rows, cols);
  EXPECT_EQ(packed.weight.scales.ToString(), "F32 [2, 23]");
  EXPECT_TRUE(SameBits(packed.Decode(), values));
}

TEST(CodecTest, Fp8BlockErrorIsWithinItsStep) {
  std::vector<float> values(130 * 70);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i)) * 3.0f;
  const std::vector<float> decoded = Packed(kFp8BlockFormat, values, 130, 70).Decode();
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_LE(std::fabs(decoded[i] - values[i]), std::fabs(values[i]) / 16 + 3.0f / 448 / 512 * 2);
}

TEST(CodecTest, Fp8ScaleUsesTheWholeRange) {
  const auto scale = [](float largest) {
    float value = 0;
    std::memcpy(&value, Packed(kFp8BlockFormat, {largest, 0}, 1, 2).scales.data(), sizeof(value));
    return value;
  };
  EXPECT_EQ(scale(448.0f), 1.0f);
  EXPECT_EQ(scale(449.0f), 2.0f);
  EXPECT_EQ(scale(224.0f), 0.5f);
  EXPECT_EQ(scale(-225.0f), 1.0f);
  EXPECT_EQ(scale(0.0f), 1.0f);
  EXPECT_EQ(scale(1e-45f), 0x1p-126f);
}

TEST(CodecTest, Bf16StoresExpertsTurned) {
  const Codec& codec = CodecFor(kBf16Format);
  const StoredWeight experts = codec.Describe("e", std::vector<int64_t>{4, 6, 2});
  EXPECT_TRUE(experts.transposed);
  EXPECT_EQ(experts.data.shape, (std::vector<int64_t>{4, 2, 6}));
  EXPECT_FALSE(codec.Describe("e", std::vector<int64_t>{6, 2}).transposed);
  const std::vector<float> values = {1, -2, 0.5f, -0.0f, 3e38f, 1e-40f};
  const std::vector<float> decoded = Packed(kBf16Format, values, 2, 3).Decode();
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(decoded[i], ToFloat(ToBf16(values[i])));
}

TEST(CodecTest, TheRegistryFindsFormatsByName) {
  for (const Codec* codec : AllCodecs()) {
    EXPECT_EQ(FindCodec(codec->name()), codec);
    EXPECT_EQ(&CodecFor(codec->format()), codec);
    EXPECT_EQ(codec->format().ToString(), codec->name());
  }
  EXPECT_EQ(FindCodec("int4"), nullptr);
}

TEST(CodecTest, RecognisesByNamesAndRefusesHalves) {
  const std::vector<int64_t> shape = {2, 64, 96};
  std::map<std::string, StoredTensor, std::less<>> tensors;
  const StoredLookup lookup = [&](std::string_view name) -> std::optional<StoredTensor> {
    const auto found = tensors.find(name);
    return found == tensors.end() ? std::nullopt : std::optional(found->second);
  };
  const auto add = [&](const std::string& name, DType dtype, std::vector<int64_t> dims) {
    tensors[name] = {name, dtype, std::move(dims)};
  };
  const Codec& mxfp4 = *FindCodec("mxfp4");
  const Codec& fp8 = *FindCodec("fp8-block");
  EXPECT_FALSE(mxfp4.Recognise("w", shape, lookup)->has_value());
  add("w.blocks", DType::kU8, {2, 64, 3, 16});
  EXPECT_FALSE(mxfp4.Recognise("w", shape, lookup).ok());
  add("w.scales", DType::kU8, {2, 64, 3});
  EXPECT_EQ((*mxfp4.Recognise("w", shape, lookup))->scales->name, "w.scales");
  EXPECT_FALSE(mxfp4.Recognise("w", std::vector<int64_t>{2, 64, 90}, lookup).ok());
  EXPECT_FALSE(fp8.Recognise("w", shape, lookup)->has_value());
  add("w", DType::kBf16, {2, 96, 64});
  EXPECT_FALSE(fp8.Recognise("w", shape, lookup)->has_value()) << "bf16 has the same name";
  EXPECT_TRUE((*FindCodec("bf16")->Recognise("w", shape, lookup))->transposed);
  add("w", DType::kE4m3, {2, 64, 96});
  EXPECT_FALSE(fp8.Recognise("w", shape, lookup).ok()) << "scales are missing";
  add("w_scale_inv", DType::kF32, {2, 1, 1});
  EXPECT_TRUE(fp8.Recognise("w", shape, lookup)->has_value());
}

}  // namespace
}  // namespace rose
