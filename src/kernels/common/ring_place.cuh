// Where a walk over a ring of stages has come to.
#pragma once

#include <cstdint>

namespace rose {

template <int kStages>
struct RingPlace {
  int stage = 0;
  uint32_t parity = 0;  // of the stage's barriers in this turn
  __device__ void Advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

}  // namespace rose
