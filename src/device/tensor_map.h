// Tensor maps: how a bulk copy (TMA) finds a box of a matrix in global memory.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "tensor/dtype.h"

namespace rose {

// A matrix in global memory, and the box of it that one copy takes: 128 bytes of `box_rows` rows.
struct MatrixBox {
  const void* data = nullptr;  // aligned to 16 bytes
  DType dtype = DType::kBf16;  // kBf16 or kE4m3
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t row_stride = 0;  // elements; a multiple of 16 bytes
  int box_rows = 0;        // at most 256
};

// For boxes that land with the 128-byte swizzle. Throws if the driver refuses.
CUtensorMap MapMatrix(const MatrixBox& box);

// The same matrix as blocks of 128 bytes of all rows, so that one copy can take several blocks:
// boxes of `blocks` of them, each as MapMatrix's box, one behind the other; box_rows is a multiple
// of 8. Coordinates are (0, row, block). Where a row is not whole blocks, (column, row, 0) of one
// block.
CUtensorMap MapBlocks(const MatrixBox& box, int blocks);

// Rows of bytes, all of them dense, and the box of them that one copy takes.
struct ByteBox {
  const void* data = nullptr;  // aligned to 16 bytes
  int64_t rows = 0;
  int64_t row_bytes = 0;  // a multiple of 16
  int box_rows = 0;       // at most 256
  int box_bytes = 0;      // of a row; a multiple of 16, at most 2048
};

// For boxes that land as they are, row behind row. Coordinates are (8 bytes, row).
CUtensorMap MapBytes(const ByteBox& box);

}  // namespace rose
