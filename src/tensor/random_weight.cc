#include "tensor/random_weight.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

namespace rose {
namespace {

int64_t Elements(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (int64_t size : shape) n *= size;
  return n;
}

// How the magnitudes of blocks spread around the weight's own, in powers of two and 256ths.
struct BlockShare {
  int power;
  int share;
};
constexpr BlockShare kBlockShares[] = {{-3, 4}, {-2, 16}, {-1, 66}, {0, 140}, {1, 26}, {2, 4}};

// Fills exponents[] so that a block of power 0 has `base`; returns the root mean square of
// 2^power.
double SpreadBlocks(int base, RandomTables& tables) {
  double squares = 0;
  int at = 0;
  for (const BlockShare& block : kBlockShares) {
    squares += block.share / 256.0 * std::exp2(2 * block.power);
    for (int i = 0; i < block.share; ++i)
      tables.exponents[at++] = static_cast<uint8_t>(std::clamp(base + block.power, 1, 254));
  }
  ROSE_CHECK_EQ(at, 256);
  return std::sqrt(squares);
}

// The magnitude below which a share `p` of a normal distribution of deviation 1 lies.
double HalfNormalQuantile(double p) {
  double low = 0, high = 10;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (std::erf(middle / std::numbers::sqrt2) < p ? low : high) = middle;
  }
  return low;
}

// codes[0..255]: sign in the highest bit of the index, 128 magnitudes of equal share below it.
// `round` gives the code of a number >= 0, `value` the number of a code. Returns their root mean
// square.
template <typename Round, typename Value>
double FillCodes(double deviation, int sign_bit, Round round, Value value, RandomTables& tables) {
  double squares = 0;
  for (int i = 0; i < 128; ++i) {
    const double x = deviation * HalfNormalQuantile((i + 0.5) / 128);
    const int code = round(static_cast<float>(x));
    tables.codes[i] = static_cast<uint16_t>(code);
    tables.codes[128 + i] = static_cast<uint16_t>(code | sign_bit);
    squares += std::pow(value(code), 2) / 128;
  }
  return std::sqrt(squares);
}

// Codes and block exponents for a deviation of all. A block of power 0 has the exponent that keeps
// the deviation of codes in [least, 2 * least); what rounding and clipping change is made good.
template <typename Round, typename Value>
void FillBlockTables(double deviation, double least, int sign_bit, Round round, Value value,
                     RandomTables& tables) {
  ROSE_CHECK(deviation > 0, "a deviation of ", deviation);
  const double spread = SpreadBlocks(127, tables);
  const int power = static_cast<int>(std::floor(std::log2(deviation / spread / least)));
  SpreadBlocks(127 + power, tables);
  const double wanted = std::ldexp(deviation / spread, -power);
  double tried = wanted;
  for (int i = 0; i < 4; ++i) tried *= wanted / FillCodes(tried, sign_bit, round, value, tables);
  FillCodes(tried, sign_bit, round, value, tables);
}

int NearestE2m1(float x) {
  int best = 0;
  for (int code = 1; code < 8; ++code)
    if (std::fabs(kE2m1[code] - x) < std::fabs(kE2m1[best] - x)) best = code;
  return best;
}

void FillTables(const WeightFormat& format, double mean, double deviation, RandomTables& tables) {
  switch (format.packing) {
    case Packing::kBf16: {
      // Four bytes: mean 510, variance 4 (256^2 - 1) / 12.
      const double unit = std::sqrt(4 * (256.0 * 256.0 - 1) / 12);
      for (int sum = 0; sum < RandomTables::kSums; ++sum)
        tables.codes[sum] = ToBf16(static_cast<float>(mean + deviation * (sum - 510) / unit)).bits;
      return;
    }
    case Packing::kMxfp4:
      return FillBlockTables(
          deviation, /*least=*/1.8, /*sign_bit=*/8, NearestE2m1,
          [](int code) { return double{kE2m1[code]}; }, tables);
    case Packing::kFp8Block:
      return FillBlockTables(
          deviation, /*least=*/60, /*sign_bit=*/128, [](float x) { return int{ToE4m3(x).bits}; },
          [](int code) { return double{ToFloat(E4m3{static_cast<uint8_t>(code)})}; }, tables);
  }
  ROSE_CHECK(false, "packing ", static_cast<int>(format.packing));
}

// Stores numbers [begin, end), `per_word` of which come out of a word, by store(word, which) for
// every number.
template <typename Store>
void ForNumbers(uint64_t key, uint64_t per_word, int64_t begin, int64_t end, Store store) {
  auto i = static_cast<uint64_t>(begin);
  const auto stop = static_cast<uint64_t>(end);
  while (i < stop) {
    const uint64_t word = RandomWord(key, i / per_word);
    for (uint64_t which = i % per_word; which < per_word && i < stop; ++which, ++i)
      store(word, which);
  }
}

}  // namespace

uint64_t RandomKey(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return RandomWord(RandomWord(seed, 1), hash);
}

RandomRecipe MakeRandomRecipe(const WeightFormat& format, std::vector<int64_t> shape, uint64_t key,
                              double mean, double deviation) {
  RandomRecipe recipe{format, std::move(shape), {}, {}};
  ROSE_CHECK(format.packing != Packing::kMxfp4 || recipe.shape.back() % 32 == 0, "mxfp4 of ",
             ShapeToString(recipe.shape));
  ROSE_CHECK(format.packing == Packing::kBf16 || mean == 0, "a mean of ", mean);
  recipe.tables.key = key;
  recipe.tables.scale_key = RandomWord(key, ~uint64_t{0});
  FillTables(format, mean, deviation, recipe.tables);
  return recipe;
}

Weight LayOut(const RandomRecipe& recipe) {
  const std::vector<int64_t>& shape = recipe.shape;
  Weight weight{recipe.format, shape, {}, {}};
  std::vector<int64_t> scales = shape;
  switch (recipe.format.packing) {
    case Packing::kBf16:
      weight.data = Tensor(nullptr, DType::kBf16, shape);
      return weight;
    case Packing::kMxfp4: {
      scales.back() /= 32;
      std::vector<int64_t> blocks = scales;
      blocks.push_back(16);
      weight.data = Tensor(nullptr, DType::kU8, blocks);
      weight.scales = Tensor(nullptr, DType::kU8, scales);
      return weight;
    }
    case Packing::kFp8Block:
      ROSE_CHECK(shape.size() >= 2, "fp8-block of ", ShapeToString(shape));
      scales[shape.size() - 2] = recipe.format.ScaleRows(shape[shape.size() - 2]);
      scales.back() = (shape.back() + 127) / 128;
      weight.data = Tensor(nullptr, DType::kE4m3, shape);
      weight.scales = Tensor(nullptr, DType::kF32, scales);
      return weight;
  }
  ROSE_CHECK(false, "packing ", static_cast<int>(recipe.format.packing));
}

void FillRandomData(const RandomRecipe& recipe, int64_t begin, int64_t end, uint8_t* out) {
  ROSE_CHECK(begin >= 0 && begin <= end && end <= Elements(recipe.shape), begin, " to ", end,
             " of ", ShapeToString(recipe.shape));
  if (!recipe.listed.empty()) {
    std::memcpy(out, recipe.listed.data() + begin, 2 * (end - begin));
    return;
  }
  const RandomTables& tables = recipe.tables;
  switch (recipe.format.packing) {
    case Packing::kBf16:
      return ForNumbers(tables.key, 2, begin, end, [&](uint64_t word, uint64_t which) {
        const uint64_t four = word >> (32 * which);
        const uint16_t code =
            tables
                .codes[(four & 255) + (four >> 8 & 255) + (four >> 16 & 255) + (four >> 24 & 255)];
        std::memcpy(out, &code, 2);
        out += 2;
      });
    case Packing::kMxfp4:
      ROSE_CHECK(begin % 2 == 0 && end % 2 == 0, begin, " to ", end);
      return ForNumbers(tables.key, 8, begin, end, [&](uint64_t word, uint64_t which) {
        const uint16_t code = tables.codes[word >> (8 * which) & 255];
        if (which % 2 == 0) {
          *out = static_cast<uint8_t>(code);
        } else {
          *out++ |= static_cast<uint8_t>(code << 4);
        }
      });
    case Packing::kFp8Block:
      return ForNumbers(tables.key, 8, begin, end, [&](uint64_t word, uint64_t which) {
        *out++ = static_cast<uint8_t>(tables.codes[word >> (8 * which) & 255]);
      });
  }
}

void FillRandomScales(const RandomRecipe& recipe, int64_t begin, int64_t end, uint8_t* out) {
  const RandomTables& tables = recipe.tables;
  ForNumbers(tables.scale_key, 8, begin, end, [&](uint64_t word, uint64_t which) {
    const uint8_t exponent = tables.exponents[word >> (8 * which) & 255];
    if (recipe.format.packing == Packing::kMxfp4) {
      *out++ = exponent;
    } else {
      const uint32_t bits = uint32_t{exponent} << 23;
      std::memcpy(out, &bits, sizeof(bits));
      out += sizeof(bits);
    }
  });
}

}  // namespace rose
