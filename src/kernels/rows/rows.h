// Launchers of kernels that move whole rows.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "device/progress_mark.h"
#include "kernels/weight.h"

namespace rose {

struct EmbedParams {
  WeightView table;                 // [vocab, hidden], any packing
  const int32_t* tokens = nullptr;  // [rows], each in [0, vocab)
  float* out = nullptr;             // [rows, hidden]
  int64_t rows = 0;                 // may be 0
  ProgressMark mark;
};

// out[i] = table[tokens[i]], exactly.
void LaunchEmbed(const EmbedParams& params, cudaStream_t stream);

struct GatherRowsParams {
  const std::byte* from = nullptr;  // rows of row_bytes
  const int32_t* rows = nullptr;    // [count]
  std::byte* to = nullptr;          // [count] rows of row_bytes; does not overlap `from`
  int64_t row_bytes = 0;            // a multiple of 4
  int64_t count = 0;                // may be 0
};

// to[i] = from[rows[i]]. Pointers are aligned to 4 bytes.
void LaunchGatherRows(const GatherRowsParams& params, cudaStream_t stream);

}  // namespace rose
