// One matrix of a weight from one format to another, with the comparison of before and after.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "checkpoint/block_report.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/convert_plan.h"

namespace rose {

struct ConvertedMatrix {
  std::vector<uint8_t> data;    // as they go to the file: turned if the target is
  std::vector<uint8_t> scales;  // empty if the target has none
  std::vector<BlockReport> blocks;
};

// Converts matrix `expert` of a job (0 for a plain matrix). kInvalidArgument if a number of it is
// not finite.
Result<ConvertedMatrix> ConvertMatrix(const Checkpoint& checkpoint, const ConvertJob& job,
                                      const Codec& to, int64_t expert);

}  // namespace rose
