// A weight as an op sees it: packed values, their scales, and a printable descriptor of the format.
// Model files never mention a format; ops look at `format` to choose a loop or a kernel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace rose {

enum class Packing {
  kBf16,   // data BF16 [.., rows, cols], no scales
  kMxfp4,  // data U8 [.., rows, cols/32, 16] (low nibble first), scales U8 E8M0 [.., rows, cols/32]
  kFp8Block,  // data E4M3 [.., rows, cols], scales F32 [.., ScaleRows(rows), ceil(cols/128)]
};

// How the numbers of a weight are stored.
struct WeightFormat {
  Packing packing = Packing::kBf16;
  int block_rows = 1;  // rows and columns that share one scale; 1 x 1 where there are no scales
  int block_cols = 1;
  // Matrices whose rows take turns: row r is row r / woven of matrix r % woven (0 gate, 1 up), and
  // each has blocks of scales of its own, whose rows take turns too. 1 where blocks are one row.
  int woven = 1;

  // Rows of the grid of scales of a matrix of `rows` rows, and the one that belongs to `row`. As
  // stored, block_rows is 128; matrices joined elsewhere than on a border of blocks (checkpoint/
  // load_weights.cc) have a smaller one, which divides 128.
  constexpr int64_t ScaleRows(int64_t rows) const {
    return (rows / woven + block_rows - 1) / block_rows * woven;
  }
  constexpr int64_t ScaleRow(int64_t row) const {
    return row / woven / block_rows * woven + row % woven;
  }

  bool operator==(const WeightFormat&) const = default;
  std::string ToString() const;  // "bf16", "mxfp4", "fp8-block"
};

inline constexpr WeightFormat kBf16Format{Packing::kBf16, 1, 1};
inline constexpr WeightFormat kMxfp4Format{Packing::kMxfp4, 1, 32};
inline constexpr WeightFormat kFp8BlockFormat{Packing::kFp8Block, 128, 128};

// A view; the memory belongs to the loaded checkpoint (or to an op set's own store).
struct Weight {
  WeightFormat format;
  std::vector<int64_t> shape;  // logical: [n] for a vector, [rows, cols] = [out, in], or
                               // [experts, rows, cols]
  Tensor data;                 // packed values, see Packing
  Tensor scales;               // empty where the format has none

  bool empty() const { return data.empty(); }
  int64_t bytes() const { return data.bytes() + scales.bytes(); }
};

}  // namespace rose
