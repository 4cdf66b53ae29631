// Launchers of the mixture of experts: packing of weights at load, gate_up with SwiGLU, and down
// with the weighted sum.
//
// A row's result has the same bits whatever rows are computed with it and whichever kernel serves
// it: products are summed in chunks of 512 columns (a chain of k16 bf16 MMAs from zero, ascending;
// fp8-block: chains of 128 times their scale, added ascending), chunks are added ascending in f32,
// then the bias; down then adds weight * that over a row's experts by slot, and rounds once.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/weight.h"

namespace rose {

// Weights of a layer's experts in the layout of the kernels: [experts, ceil(rows/16),
// ceil(cols/64)] units of 16 rows x 64 columns, each in the order of MMA fragments, its scales
// behind it. Rows 2r and 2r + 1 of a unit are fragment rows r and r + 8, so that one thread has
// both gate and up. What is beyond rows or cols is zero.
struct PackedExperts {
  const uint8_t* data = nullptr;  // device memory, 16-byte aligned
  Packing packing = Packing::kMxfp4;
  int experts = 0;
  int rows = 0;
  int cols = 0;  // a multiple of 32

  static constexpr int kUnitRows = 16;
  static constexpr int kUnitCols = 64;
  __host__ __device__ int row_blocks() const { return (rows + kUnitRows - 1) / kUnitRows; }
  // Of a row block.
  __host__ __device__ int units() const { return (cols + kUnitCols - 1) / kUnitCols; }
};

// Bytes of a unit: 544 for mxfp4, 2048 for bf16, 1040 for fp8-block.
int UnitBytes(Packing packing);
int64_t PackedExpertsBytes(const PackedExperts& shape);

struct PackExpertsParams {
  PackedExperts shape;           // `data` is not used
  const void* data = nullptr;    // as Packing says, [experts, rows, cols]
  const void* scales = nullptr;  // as Packing says; null for bf16
  // fp8-block only: scale rows of gate and up alternate as the rows do (WeightFormat::woven 2): row
  // 2i + j of the weight has scale row 2 (i / 128) + j.
  bool woven_scales = false;
  uint8_t* out = nullptr;  // [PackedExpertsBytes(shape)]
  // mxfp4 only, may be null: raised to the largest E8M0 byte met. Above kLargestE8m0 the packed
  // weights are wrong (cut), and the model must be refused.
  int32_t* largest_scale = nullptr;
};
inline constexpr int kLargestE8m0 = 128;  // 2^1: numbers up to 12

// On the device, or in host memory with the same bytes. Every expert apart from the others: calls
// for parts of the experts make parts of the whole.
void LaunchPackExperts(const PackExpertsParams& params, cudaStream_t stream);
void PackExpertsOnHost(const PackExpertsParams& params);

// Scratch of both products below, not needed between launches: bytes for a step of `tokens`.
// `rows` is the larger number of rows of both weights.
int64_t ExpertsWorkspaceBytes(int64_t tokens, int experts_per_token, int experts, int rows);

struct ExpertsScratch {
  void* workspace = nullptr;  // [ExpertsWorkspaceBytes], 256-byte aligned
  int sms = 132;              // multiprocessors of the device
};

struct ExpertsGateUpParams {
  const Bf16* x = nullptr;           // [tokens, hidden], dense
  const int32_t* experts = nullptr;  // [tokens, experts_per_token], distinct in a row
  PackedExperts weight;              // rows 2 * inter (2i gate, 2i + 1 up), cols hidden
  const Bf16* bias = nullptr;        // [experts, 2 * inter], or null
  Bf16* out = nullptr;               // [tokens, experts_per_token, inter]; does not overlap x
  int64_t tokens = 0;                // may be 0
  int experts_per_token = 0;
  // out = g * sigmoid(alpha * g) * (u + up_offset), g = min(gate, limit), u = up clamped to +-limit
  float limit = 7.0f;
  float alpha = 1.702f;
  float up_offset = 1.0f;
  ExpertsScratch scratch;
};

struct ExpertsDownParams {
  const Bf16* x = nullptr;           // [tokens, experts_per_token, inter], dense
  const int32_t* experts = nullptr;  // [tokens, experts_per_token], distinct in a row
  const float* weights = nullptr;    // [tokens, experts_per_token], of the routing
  PackedExperts weight;              // rows hidden (a multiple of 2), cols inter
  const Bf16* bias = nullptr;        // [experts, hidden], or null
  Bf16* out = nullptr;               // [tokens, hidden]; does not overlap x
  int64_t tokens = 0;                // may be 0
  int experts_per_token = 0;
  ExpertsScratch scratch;
};

// Which kernel serves a launch. All give the same bits; kAuto chooses by the number of tokens.
enum class ExpertsVariant {
  kAuto,
  kStrips,   // weights streamed once: memory-bound; up to 16 tokens, more as kNarrow
  kNarrow,   // tokens sorted by expert, tiles of up to 32 of them (mxfp4, others as kGrouped)
  kGrouped,  // the same, up to 96 (bf16 128, fp8-block 64): for prefill
};

// NOTE: down reads the routing before the kernels ahead of it have ended. Its x comes from a
// gate_up with the same routing, so that whatever wrote the routing is done when it may start.
void LaunchExpertsGateUp(const ExpertsGateUpParams& params, cudaStream_t stream,
                         ExpertsVariant variant = ExpertsVariant::kAuto);
void LaunchExpertsDown(const ExpertsDownParams& params, cudaStream_t stream,
                       ExpertsVariant variant = ExpertsVariant::kAuto);

}  // namespace rose
