// Where things begin that share a block of device memory.
#pragma once

#include <cstdint>

namespace rose {

// Bytes, up to a multiple of what cudaMalloc aligns to.
constexpr int64_t AlignOnDevice(int64_t bytes) {
  constexpr int64_t kAlign = 256;
  return (bytes + kAlign - 1) / kAlign * kAlign;
}

}  // namespace rose
