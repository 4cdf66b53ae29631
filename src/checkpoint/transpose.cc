#include "checkpoint/transpose.h"

#include <algorithm>
#include <cstring>

namespace rose {

void TransposePairs(const uint8_t* from, int64_t rows, int64_t cols, int64_t stride, uint8_t* to) {
  constexpr int64_t kTile = 64;  // both sides stay within the cache
  for (int64_t row0 = 0; row0 < rows; row0 += kTile)
    for (int64_t col0 = 0; col0 < cols; col0 += kTile)
      for (int64_t col = col0; col < std::min(cols, col0 + kTile); ++col)
        for (int64_t row = row0; row < std::min(rows, row0 + kTile); ++row)
          std::memcpy(to + 2 * (col * rows + row), from + 2 * (row * stride + col), 2);
}

}  // namespace rose
