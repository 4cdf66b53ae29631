// Turning the matrices of dequantised experts, which are stored with the input axis first.
#pragma once

#include <cstdint>

namespace rose {

// Elements of two bytes: from [rows, cols], whose rows begin every `stride` elements, to [cols,
// rows], dense; the two may not overlap. Any alignment.
void TransposePairs(const uint8_t* from, int64_t rows, int64_t cols, int64_t stride, uint8_t* to);
inline void TransposePairs(const uint8_t* from, int64_t rows, int64_t cols, uint8_t* to) {
  TransposePairs(from, rows, cols, cols, to);
}

}  // namespace rose
