// Known faults of other servers in MXFP4 decoding and in the mixture of experts, on every op set;
// and the numbers of spec A.8.
#include <cmath>
#include <limits>

#include "ops/op_sets.h"

namespace rose {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// The values of one row of a matrix as the op set computes with them: x is one at one column.
std::vector<float> RowThroughGemm(OpSet& ops, Inputs& in, const Weight& w, int64_t row) {
  const int64_t cols = w.shape[1];
  std::vector<float> x(cols * cols, 0.0f);
  for (int64_t c = 0; c < cols; ++c) x[c * cols + c] = 1.0f;
  ops.BeginStep({});
  const Tensor out = ops.Gemm(in.F32(x, {cols, cols}), w, {});
  std::vector<float> values;
  for (int64_t c = 0; c < cols; ++c) values.push_back(out.data<float>()[c * w.shape[0] + row]);
  return values;
}

TEST(Case076, OneBlockGivesTheSameValuesOnEveryPath) {
  // Nibbles 0 to 15, twice; scale byte 130 is 2^3.
  uint8_t block[16];
  for (int b = 0; b < 16; ++b)
    block[b] = static_cast<uint8_t>((2 * b & 15) | ((2 * b + 1) & 15) << 4);
  uint8_t scale = 130;
  const Weight matrix = Inputs::Wrap(kMxfp4Format, {1, 32}, block, &scale);
  std::vector<float> decoded(32);
  DecodeRow(matrix, 0, 0, decoded);
  for (int i = 0; i < 32; ++i) ASSERT_EQ(decoded[i], kE2m1[i & 15] * 8) << i;
  for (OpSetCase& set : AllOpSets()) {
    SCOPED_TRACE(set.name);
    Inputs in;
    EXPECT_EQ(RowThroughGemm(*set.ops, in, matrix, 0), decoded);
    // The same block as both rows of an expert's second matrix. Experts on a GPU have scales up to
    // 2^1, and refuse larger ones.
    const uint8_t most = set.name == "cuda" ? 128 : scale;
    const float factor = std::ldexp(1.0f, most - scale);
    uint8_t blocks[32], scales[2] = {most, most};
    for (uint8_t* to : {blocks, blocks + 16}) std::copy_n(block, 16, to);
    const Weight expert = Inputs::Wrap(kMxfp4Format, {1, 2, 32}, blocks, scales);
    for (int c = 0; c < 32; ++c) {
      std::vector<float> x(32, 0.0f);
      x[c] = 1.0f;
      set.ops->BeginStep({});
      std::vector<int32_t> chosen = {0};
      const Routing routing{Tensor(chosen.data(), DType::kI32, {1, 1}), in.F32({1.0f}, {1, 1})};
      const Tensor out =
          set.ops->ExpertsDown(in.F32(x, {1, 1, 32}), routing, expert, in.Vector({0, 0}, {1, 2}));
      EXPECT_EQ(out.data<float>()[0], factor * decoded[c]) << c;
      EXPECT_EQ(out.data<float>()[1], factor * decoded[c]) << c;
    }
  }
}

TEST(Case077, ScalesArePowersOfTwoInEveryKernel) {
  for (OpSetCase& set : AllOpSets()) {
    SCOPED_TRACE(set.name);
    for (int byte : {0, 1, 125, 126, 127, 128, 129, 253, 254}) {
      for (int nibble = 0; nibble < 16; ++nibble) {
        // The value alone in its row: an infinite one must not meet a zero.
        uint8_t block[16] = {static_cast<uint8_t>(nibble)};
        uint8_t scale = static_cast<uint8_t>(byte);
        const Weight w = Inputs::Wrap(kMxfp4Format, {1, 32}, block, &scale);
        Inputs in;
        std::vector<float> x(32, 0.0f);
        x[0] = 1.0f;
        set.ops->BeginStep({});
        const float value = set.ops->Gemm(in.F32(x, {1, 32}), w, {}).data<float>()[0];
        const float expected = std::ldexp(kE2m1[nibble], byte - 127);
        EXPECT_EQ(value, expected) << byte << " " << nibble;
      }
    }
  }
}

// Every number of E4M3, subnormals too, through both kinds of products, for a token alone and as
// one of many.
TEST(Fp8Test, EveryNumberIsDecodedExactly) {
  constexpr int64_t kRows = 8, kCols = 32;
  std::vector<uint8_t> codes(kRows * kCols);
  for (int code = 0; code < 256; ++code)
    codes[code] = static_cast<uint8_t>((code & 0x7f) == 0x7f ? 0 : code);
  float scale = 2.0f;
  const auto wrap = [&](std::vector<int64_t> shape) {
    return Inputs::Wrap(kFp8BlockFormat, shape, codes.data(), reinterpret_cast<uint8_t*>(&scale));
  };
  const Weight matrix = wrap({kRows, kCols}), expert = wrap({1, kRows, kCols});
  std::vector<float> decoded(kRows * kCols);
  for (int64_t row = 0; row < kRows; ++row) {
    DecodeRow(matrix, 0, row, std::span(decoded).subspan(row * kCols, kCols));
  }
  EXPECT_EQ(decoded[1], 0x1p-8f);
  for (OpSetCase& set : AllOpSets()) {
    for (int64_t tokens : {1, 9, 100}) {
      SCOPED_TRACE(StrCat(set.name, " ", tokens, " tokens"));
      for (int64_t first = 0; first < kCols; first += tokens) {
        Inputs in;
        std::vector<float> x(tokens * kCols, 0.0f);  // token t has a one at column first + t
        for (int64_t t = 0; t < tokens; ++t) x[t * kCols + (first + t) % kCols] = 1.0f;
        std::vector<int32_t> chosen(tokens, 0);
        const Routing routing{Tensor(chosen.data(), DType::kI32, {tokens, 1}),
                              in.F32(std::vector<float>(tokens, 1.0f), {tokens, 1})};
        set.ops->BeginStep({});
        const Tensor dense = set.ops->Gemm(in.F32(x, {tokens, kCols}), matrix, {});
        const Tensor down =
            set.ops->ExpertsDown(in.F32(x, {tokens, 1, kCols}), routing, expert, {});
        for (int64_t t = 0; t < tokens; ++t) {
          for (int64_t row = 0; row < kRows; ++row) {
            const float expected = decoded[row * kCols + (first + t) % kCols];
            ASSERT_EQ(dense.data<float>()[t * kRows + row], expected) << t << " " << row;
            ASSERT_EQ(down.data<float>()[t * kRows + row], expected) << t << " " << row;
          }
        }
      }
    }
  }
}

// One token, one expert; the activation of chosen gate and up values.
float SwiGluThrough(OpSet& ops, float gate, float up, const SwiGlu& activation) {
  constexpr int64_t kCols = 32;
  Inputs in;
  ops.BeginStep({});
  std::vector<int32_t> chosen = {0};
  const Routing routing{Tensor(chosen.data(), DType::kI32, {1, 1}), in.F32({1.0f}, {1, 1})};
  // gate and up come in as the first two columns of x; ones in the weights let each through.
  std::vector<float> ones(2 * kCols, 0.0f), row(kCols, 0.0f);
  ones[0] = ones[kCols + 1] = 1;
  const Weight w = in.Matrix(kBf16Format, ones, {1, 2, kCols});
  // 0 times infinity would be NaN: infinities come in by the bias.
  const bool by_bias = !std::isfinite(gate) || !std::isfinite(up);
  if (!by_bias) row[0] = gate, row[1] = up;
  const Weight bias =
      in.Vector(by_bias ? std::vector<float>{gate, up} : std::vector<float>{0, 0}, {1, 2});
  return ops.ExpertsGateUp(in.F32(row, {1, kCols}), routing, w, bias, activation).data<float>()[0];
}

constexpr SwiGlu kGptOss{.limit = 7.0f, .alpha = 1.702f, .up_offset = 1.0f};

TEST(Case083, EvenRowsAreGatesOddRowsAreUps) {
  struct Point {
    float gate, up;
    double out;
  };
  const Point points[] = {{1, 0, 0.845796},     {10, 0, 6.999953},          {10, 10, 55.999625},
                          {7, -1, 0},           {0.5f, -0.5f, 0.175194},    {1, 1, 1.69159153},
                          {8, -9, -41.9997188}, {-10, 20, -3.24636904e-06}, {0.5f, -1, 0},
                          {7, 7, 55.999625},    {-0.5f, 0, -0.149611563}};
  for (OpSetCase& set : AllOpSets()) {
    SCOPED_TRACE(set.name);
    for (const Point& p : points) {
      EXPECT_NEAR(SwiGluThrough(*set.ops, p.gate, p.up, kGptOss), p.out,
                  set.Within(2e-6 * std::max(1e-3, std::fabs(p.out)), p.out))
          << p.gate << " " << p.up;
    }
    // The limit is a parameter.
    EXPECT_NEAR(
        SwiGluThrough(*set.ops, 10, 10, {.limit = 2.0f, .alpha = 1.702f, .up_offset = 1.0f}),
        5.8071, set.Within(2e-4, 5.8071));
    EXPECT_NEAR(SwiGluThrough(*set.ops, kInf, kInf, kGptOss), 55.999626, set.Within(1e-5, 56));
    EXPECT_NEAR(SwiGluThrough(*set.ops, kInf, -kInf, kGptOss), -41.999718, set.Within(1e-5, 42));
    // -inf * sigmoid(-inf) is -inf * 0, as in the reference.
    EXPECT_TRUE(std::isnan(SwiGluThrough(*set.ops, -kInf, 0, kGptOss)));
    EXPECT_TRUE(std::isnan(SwiGluThrough(*set.ops, std::nanf(""), 1, kGptOss)));
    EXPECT_TRUE(std::isnan(SwiGluThrough(*set.ops, 1, std::nanf(""), kGptOss)));
  }
}

TEST(SwiGluTest, AsItStandsIsSiluTimesUpWithoutLimits) {
  struct Point {
    float gate, up;
    double out;
  };
  // x * sigmoid(x) * up in double.
  const Point points[] = {
      {1, 1, 0.731058579}, {10, 20, 199.990920},     {-10, 20, -0.00907957374}, {100, -100, -1e4},
      {0, 5, 0},           {0.5f, -1, -0.311229665}, {-100, 1e30f, 0},          {3, 0, 0}};
  for (OpSetCase& set : AllOpSets()) {
    SCOPED_TRACE(set.name);
    for (const Point& p : points) {
      EXPECT_NEAR(SwiGluThrough(*set.ops, p.gate, p.up, {}), p.out,
                  set.Within(4e-6 * std::max(1e-3, std::fabs(p.out)), p.out))
          << p.gate << " " << p.up;
    }
    EXPECT_EQ(SwiGluThrough(*set.ops, kInf, 2, {}), kInf);
    EXPECT_EQ(SwiGluThrough(*set.ops, 1, -kInf, {}), -kInf);
    EXPECT_TRUE(std::isnan(SwiGluThrough(*set.ops, -kInf, 1, {})));
    EXPECT_TRUE(std::isnan(SwiGluThrough(*set.ops, kInf, 0, {})));
    EXPECT_TRUE(std::isnan(SwiGluThrough(*set.ops, std::nanf(""), 1, {})));
    EXPECT_TRUE(std::isnan(SwiGluThrough(*set.ops, 1, std::nanf(""), {})));
  }
}

TEST(ExpertsTest, AnEmptyBiasIsABiasOfZeros) {
  for (OpSetCase& set : AllOpSets()) {
    SCOPED_TRACE(set.name);
    Inputs in;
    const int64_t experts = 5, hidden = 96, inter = 64, tokens = 9;
    const Tensor x = in.RandomF32({tokens, hidden});
    const Weight router = in.RandomMatrix(kBf16Format, {experts, hidden});
    const Weight up = in.RandomMatrix(kBf16Format, {experts, 2 * inter, hidden});
    const Weight down = in.RandomMatrix(kBf16Format, {experts, hidden, inter});
    const auto zeros = [&](std::vector<int64_t> shape) {
      return in.Vector(std::vector<float>(experts * shape.back()), shape);
    };
    const auto run = [&](const Weight& router_bias, const Weight& up_bias,
                         const Weight& down_bias) {
      PoisonArena(*set.ops);
      const Routing routing = set.ops->Route(x, router, router_bias, 3);
      const Tensor inner = set.ops->ExpertsGateUp(x, routing, up, up_bias, {});
      return ToVector(set.ops->ExpertsDown(inner, routing, down, down_bias));
    };
    const std::vector<float> with = run(in.Vector(std::vector<float>(experts), {experts}),
                                        zeros({experts, 2 * inter}), zeros({experts, hidden}));
    const std::vector<float> without = run({}, {}, {});
    ExpectSameBits(without.data(), with.data(), std::ssize(with));
  }
}

TEST(Case080, BiasesOfExpertsAreInsideActivationAndSum) {
  for (OpSetCase& set : AllOpSets()) {
    for (const WeightFormat& format : {kBf16Format, kMxfp4Format, kFp8BlockFormat}) {
      SCOPED_TRACE(StrCat(set.name, " ", format.ToString()));
      Inputs in;
      const int64_t experts = 6, size = 32;
      const Weight zero_up = in.Matrix(format, std::vector<float>(experts * 2 * size * size),
                                       {experts, 2 * size, size});
      const Weight zero_down =
          in.Matrix(format, std::vector<float>(experts * size * size), {experts, size, size});
      // Biases of up to 200, different in each expert and row, exact in bf16.
      std::vector<float> up_bias, down_bias;
      for (int64_t i = 0; i < experts * 2 * size; ++i)
        up_bias.push_back(static_cast<float>(i % 37) - 18);
      for (int64_t i = 0; i < experts * size; ++i) down_bias.push_back(static_cast<float>(i));
      std::vector<int32_t> chosen = {5, 1, 0, 3};
      const std::vector<float> weights = {0.75f, 0.25f, 0.5f, 0.5f};
      const Routing routing{Tensor(chosen.data(), DType::kI32, {2, 2}), in.F32(weights, {2, 2})};
      set.ops->BeginStep({});
      const Tensor inner = set.ops->ExpertsGateUp(in.RandomF32({2, size}), routing, zero_up,
                                                  in.Vector(up_bias, {experts, 2 * size}), kGptOss);
      for (int64_t use = 0; use < 4; ++use) {
        for (int64_t i = 0; i < size; ++i) {
          const float* b = up_bias.data() + (chosen[use] * size + i) * 2;
          const double gate = std::min(7.0f, b[0]);
          const double up = std::clamp(b[1], -7.0f, 7.0f);
          const double expected = gate / (1 + std::exp(-1.702 * gate)) * (up + 1);
          EXPECT_NEAR(inner.data<float>()[use * size + i], expected, set.Within(1e-5, expected));
        }
      }
      const Tensor out =
          set.ops->ExpertsDown(inner, routing, zero_down, in.Vector(down_bias, {experts, size}));
      for (int64_t t = 0; t < 2; ++t) {
        for (int64_t h = 0; h < size; ++h) {
          const float expected = weights[2 * t] * down_bias[chosen[2 * t] * size + h] +
                                 weights[2 * t + 1] * down_bias[chosen[2 * t + 1] * size + h];
          EXPECT_NEAR(out.data<float>()[t * size + h], expected, set.Within(0, expected));
        }
      }
    }
  }
}

// Routes `tokens` equal rows whose logits are the given ones.
Routing RouteLogits(OpSet& ops, Inputs& in, const std::vector<float>& logits, int64_t tokens,
                    int top_k) {
  const int64_t experts = static_cast<int64_t>(logits.size());
  constexpr int64_t kCols = 8;
  // x = 1 at one column; the router's column holds the logits.
  std::vector<float> x(tokens * kCols, 0.0f), w(experts * kCols, 0.5f);
  for (int64_t t = 0; t < tokens; ++t) x[t * kCols] = 1.0f;
  for (int64_t e = 0; e < experts; ++e) w[e * kCols] = logits[e];
  ops.BeginStep({});
  return ops.Route(in.F32(x, {tokens, kCols}), in.Matrix(kBf16Format, w, {experts, kCols}),
                   in.Vector(std::vector<float>(experts, 0.0f), {experts}), top_k);
}

TEST(Case081, SoftmaxIsOverTheChosenFour) {
  for (OpSetCase& set : AllOpSets()) {
    SCOPED_TRACE(set.name);
    Inputs in;
    const Routing r = RouteLogits(*set.ops, in, {2, 1, 0, -1, -1, -1, -1, -1}, 1, 4);
    const double weights[] = {0.6439, 0.2369, 0.0871, 0.0321};
    for (int k = 0; k < 4; ++k) {
      EXPECT_EQ(r.experts.data<int32_t>()[k], k);
      EXPECT_NEAR(r.weights.data<float>()[k], weights[k], 5e-5);
    }
    // Spec A.8.
    const Routing s = RouteLogits(*set.ops, in, {2, -1, 0.5f, 3, 1, 0}, 1, 4);
    const int32_t experts[] = {3, 0, 4, 2};
    const double expected[] = {0.630795543, 0.232056712, 0.085368894, 0.051778851};
    for (int k = 0; k < 4; ++k) {
      EXPECT_EQ(s.experts.data<int32_t>()[k], experts[k]);
      EXPECT_NEAR(s.weights.data<float>()[k], expected[k], 2e-7);
    }
  }
}

TEST(Case082, NearTiesAreTheSameAtEveryBatchSize) {
  for (OpSetCase& set : AllOpSets()) {
    SCOPED_TRACE(set.name);
    // Logits 1 + 1/512 and 1 from 520 columns: bf16 sums could not tell them apart.
    const int64_t cols = 520;
    std::vector<float> w(4 * cols, 0.0f);
    for (int64_t c = 0; c < 512; ++c) w[0 * cols + c] = w[1 * cols + c] = 1.0f / 512;
    w[1 * cols + 515] = 1.0f / 512;
    for (int64_t batch : {1, 8, 9, 33}) {
      Inputs in;
      const Tensor x = in.F32(std::vector<float>(batch * cols, 1.0f), {batch, cols});
      set.ops->BeginStep({});
      const Routing r = set.ops->Route(x, in.Matrix(kBf16Format, w, {4, cols}),
                                       in.Vector(std::vector<float>(4, 0.0f), {4}), 4);
      for (int64_t t = 0; t < batch; ++t) {
        const int32_t* e = r.experts.data<int32_t>() + 4 * t;
        // The larger first; the exact tie of experts 2 and 3 goes to the lower index.
        EXPECT_EQ(std::vector<int32_t>(e, e + 4), (std::vector<int32_t>{1, 0, 2, 3}))
            << batch << " row " << t;
        ExpectSameBits(r.weights.data<float>() + 4 * t, r.weights.data<float>(), 4);
      }
    }
  }
}

TEST(Case082, RoutersThatAreNaNStillChooseDistinctExperts) {
  for (OpSetCase& set : AllOpSets()) {
    SCOPED_TRACE(set.name);
    Inputs in;
    const float nan = std::nanf("");
    const Routing r = RouteLogits(*set.ops, in, {nan, 1, nan, 2, nan}, 1, 4);
    const int32_t* e = r.experts.data<int32_t>();
    EXPECT_EQ(std::vector<int32_t>(e, e + 4), (std::vector<int32_t>{3, 1, 0, 2}));
  }
}

TEST(Case092, RowsBeyond32BitElementsAreAddressed) {
  // The last row that starts below 2^31 elements and the next, of tensors that are never written.
  struct Buffer {
    int64_t cols, rows;
  };
  for (const Buffer& b :
       {Buffer{4 * 5760, 93207}, Buffer{4 * 2880, 186414}, Buffer{201088, 10680}}) {
    ASSERT_LE((b.rows - 1) * b.cols, int64_t{1} << 31);
    ASSERT_GT(b.rows * b.cols, int64_t{1} << 31);
    // calloc of this size is fresh pages of the system, which cost nothing until they are written.
    const std::unique_ptr<void, decltype(&std::free)> memory(
        std::calloc((b.rows + 1) * b.cols, sizeof(float)), &std::free);
    if (memory == nullptr) GTEST_SKIP() << "no address space";
    const Tensor x(memory.get(), DType::kF32, {b.rows + 1, b.cols});
    for (int64_t row : {b.rows - 1, b.rows}) {
      x.data<float>()[row * b.cols] = static_cast<float>(row);
      x.data<float>()[(row + 1) * b.cols - 1] = 7.0f;
    }
    for (OpSetCase& set : CpuOpSets()) {  // a device: tests/gpu/large_test.cc
      SCOPED_TRACE(set.name);
      set.ops->BeginStep({});
      const int32_t rows[] = {static_cast<int32_t>(b.rows - 1), static_cast<int32_t>(b.rows)};
      const Tensor out = set.ops->GatherLogitRows(x, {.logit_rows = rows});
      for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(out.data<float>()[i * b.cols], static_cast<float>(rows[i]));
        EXPECT_EQ(out.data<float>()[(i + 1) * b.cols - 1], 7.0f);
      }
    }
  }
}

}  // namespace
}  // namespace rose
