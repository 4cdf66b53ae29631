// A weight matrix in device memory, as the checkpoint has it.
#pragma once

#include <cstdint>

#include "tensor/weight.h"

namespace rose {

struct WeightView {
  const void* data = nullptr;    // packed values, see Packing
  const void* scales = nullptr;  // null where the packing has none
  Packing packing = Packing::kBf16;
  int block_rows = 1;  // these two as WeightFormat has them: which row of scales is a row's
  int woven = 1;
  int64_t rows = 0;  // of one matrix; stacks follow without a gap
  int64_t cols = 0;
};

}  // namespace rose
