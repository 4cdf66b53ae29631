// Launchers of the kernels that make up weights (tensor/random_weight.h).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tensor/random_weight.h"

namespace rose {

struct RandomDataParams {
  RandomTables tables;
  Packing packing = Packing::kBf16;
  void* out = nullptr;  // the data of a weight, 16-byte aligned
  int64_t numbers = 0;  // of the weight; an even count for mxfp4
};

struct RandomScalesParams {
  RandomTables tables;
  Packing packing = Packing::kMxfp4;
  void* out = nullptr;  // U8 or F32 [scales]
  int64_t scales = 0;
};

// The bytes that FillRandomData and FillRandomScales make for the whole weight.
void LaunchRandomData(const RandomDataParams& params, cudaStream_t stream);
void LaunchRandomScales(const RandomScalesParams& params, cudaStream_t stream);

}  // namespace rose
