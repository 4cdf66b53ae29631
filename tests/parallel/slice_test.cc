#include "parallel/slice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "quant/codec.h"

namespace rose {
namespace {

TEST(Slice, CoversTheAxisOnBlockBorders) {
  for (const int64_t size : {0, 1, 31, 32, 33, 1440, 2880, 201088}) {
    for (const int64_t block : {1, 32, 64}) {
      for (const int ranks : {1, 2, 3, 4, 7, 8}) {
        int64_t position = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          const Slice slice = SliceOf(size, block, rank, ranks);
          EXPECT_EQ(slice.begin, position);
          EXPECT_GE(slice.size(), 0);
          EXPECT_LE(slice.size(), PaddedSliceSize(size, block, ranks));
          EXPECT_TRUE(slice.end % block == 0 || slice.end == size);
          position = slice.end;
        }
        EXPECT_EQ(position, size);
      }
    }
  }
}

TEST(Case078, ExpertsAreCutOnTheirAxis) {
  for (const int64_t experts : {32, 128}) {
    for (const int ranks : {1, 2, 3, 4, 8}) {
      int64_t owned = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Slice slice = SliceOf(experts, 1, rank, ranks);
        EXPECT_GT(slice.size(), 0) << "no empty slice";
        EXPECT_LE(slice.size(), (experts + ranks - 1) / ranks) << "the axis is cut";
        owned += slice.size();
      }
      EXPECT_EQ(owned, experts);
    }
  }
}

// One expert of gpt-oss' intermediate size, narrow in the other axis. All numbers are small whole
// ones, so that sums in double are exact in any order.
constexpr int64_t kInter = 2880, kHidden = 32;

struct Mxfp4Matrix {
  int64_t rows, cols;
  std::vector<uint8_t> blocks, scales;

  Mxfp4Matrix(int64_t r, int64_t c) : rows(r), cols(c), blocks(r * c / 2), scales(r * c / 32) {}

  // Rows [row0, row1) and columns [col0, col1), as bytes are cut: columns on block borders.
  Mxfp4Matrix Cut(Slice r, Slice c) const {
    Mxfp4Matrix part(r.size(), c.size());
    for (int64_t row = 0; row < r.size(); ++row) {
      for (int64_t block = 0; block < c.size() / 32; ++block) {
        const int64_t from = (r.begin + row) * (cols / 32) + c.begin / 32 + block;
        const int64_t to = row * (c.size() / 32) + block;
        part.scales[to] = scales[from];
        std::copy_n(blocks.begin() + from * 16, 16, part.blocks.begin() + to * 16);
      }
    }
    return part;
  }

  std::vector<double> Times(const std::vector<double>& x) {
    const std::vector<int64_t> shape = {rows, cols};
    const Weight weight{kMxfp4Format, shape,
                        Tensor(blocks.data(), DType::kU8, {rows, cols / 32, 16}),
                        Tensor(scales.data(), DType::kU8, {rows, cols / 32})};
    std::vector<double> y(rows);
    std::vector<float> row_values(cols);
    for (int64_t row = 0; row < rows; ++row) {
      DecodeRow(weight, 0, row, row_values);
      for (int64_t col = 0; col < cols; ++col) y[row] += row_values[col] * x[col];
    }
    return y;
  }
};

Mxfp4Matrix Random(int64_t rows, int64_t cols, uint32_t seed) {
  Mxfp4Matrix matrix(rows, cols);
  const auto next = [&seed] { return (seed = seed * 1664525 + 1013904223) >> 16; };
  for (uint8_t& byte : matrix.blocks) byte = static_cast<uint8_t>(next());
  for (uint8_t& byte : matrix.scales) byte = static_cast<uint8_t>(128 + next() % 3);
  return matrix;
}

// down . (gate * (up + 1)) of the rows that a rank has; gate and up are interleaved.
std::vector<double> Expert(Mxfp4Matrix gate_up, Mxfp4Matrix down, const std::vector<double>& x) {
  const std::vector<double> u = gate_up.Times(x);
  std::vector<double> a(u.size() / 2);
  for (size_t i = 0; i < a.size(); ++i) a[i] = u[2 * i] * (u[2 * i + 1] + 1);
  return down.Times(a);
}

TEST(Case078, TheSumOverRanksEqualsOneRank) {
  const Mxfp4Matrix gate_up = Random(2 * kInter, kHidden, 1), down = Random(kHidden, kInter, 2);
  std::vector<double> x(kHidden), bias(kHidden);
  for (int64_t i = 0; i < kHidden; ++i) {
    x[i] = static_cast<double>(i % 7 - 3);
    bias[i] = static_cast<double>(1000 + i);
  }
  std::vector<double> whole = Expert(gate_up, down, x);
  for (int64_t i = 0; i < kHidden; ++i) whole[i] += bias[i];
  for (const int ranks : {1, 2, 3, 4, 8}) {
    std::vector<double> sum(kHidden);
    for (int rank = 0; rank < ranks; ++rank) {
      const Slice inter = SliceOf(kInter, 32, rank, ranks);
      EXPECT_EQ(inter.begin % 32, 0);
      const std::vector<double> part =
          Expert(gate_up.Cut({2 * inter.begin, 2 * inter.end}, {0, kHidden}),
                 down.Cut({0, kHidden}, inter), x);
      for (int64_t i = 0; i < kHidden; ++i) sum[i] += part[i] + (rank == 0 ? bias[i] : 0);
    }
    EXPECT_EQ(sum, whole) << ranks << " ranks";
  }
  EXPECT_EQ(PaddedSliceSize(kInter, 32, 4), 736) << "22.5 blocks become 23";
  EXPECT_EQ(PaddedSliceSize(kInter, 32, 8), 384) << "11.25 blocks become 12";
}

}  // namespace
}  // namespace rose
