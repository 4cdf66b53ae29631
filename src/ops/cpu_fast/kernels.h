// The inner loops of the cpu-fast ops, one table of functions for each level of vector
// instructions. A loop computes part of an op on one thread; the ops (cpu_fast_ops.h) cut the work.
//
// Every result is one chain of operations that depends on the level and on its own inputs only,
// never on which other rows are computed with it. That is what makes the ops batch invariant.
#pragma once

#include <cstdint>

#include "base/cpu.h"
#include "ops/ops.h"
#include "tensor/weight.h"

namespace rose {

// One matrix of a weight: values and scales as bytes, since mapped files promise no alignment.
struct MatrixView {
  WeightFormat format;
  const uint8_t* data = nullptr;
  const uint8_t* scales = nullptr;  // null for bf16
  int64_t rows = 0;
  int64_t cols = 0;
};

// Matrix `expert` of a weight (0 for a plain one).
MatrixView MatrixOf(const Weight& weight, int64_t expert);

// Rows that GemmTask::scratch has room for.
inline constexpr int64_t kGemmScratchRows = 4;

// out[t][r] = x[t] . row (row_begin + r) + bias, for r in [0, row_end - row_begin).
struct GemmTask {
  MatrixView matrix;
  int64_t row_begin = 0;
  int64_t row_end = 0;
  int64_t tokens = 0;
  const float* const* x = nullptr;  // [tokens] -> [cols]
  float* const* out = nullptr;      // [tokens] -> [row_end - row_begin]
  const uint8_t* bias = nullptr;    // BF16 [rows], or null
  float* scratch = nullptr;         // [kGemmScratchRows, cols]
};

// Attention of `rows` consecutive rows of one sequence, for one kv head.
struct AttentionTask {
  AttentionShape shape;
  int64_t kv_head = 0;
  int64_t rows = 0;
  int64_t position = 0;      // of the first row
  const float* q = nullptr;  // of the first row; row stride q_stride
  int64_t q_stride = 0;
  float* out = nullptr;  // of the first row; row stride out_stride
  int64_t out_stride = 0;
  const float* sinks = nullptr;    // [heads], or null
  const KvLayer* kv = nullptr;     // keys of a page lie transposed: [head_dim, kPageSize]
  const int32_t* pages = nullptr;  // of the sequence
  float* scratch = nullptr;        // AttentionScratch(shape, rows) floats
};

int64_t AttentionScratch(const AttentionShape& shape, int64_t rows);

struct KernelTable {
  CpuIsa isa = CpuIsa::kScalar;
  void (*gemm)(const GemmTask& task) = nullptr;
  void (*attention)(const AttentionTask& task) = nullptr;
  // gate_up [2 * inter], interleaved -> out [inter].
  void (*swiglu)(const float* gate_up, int64_t inter, const SwiGlu& activation,
                 float* out) = nullptr;
  // x [n], weight BF16 [n] -> out [n], which may be x.
  void (*rms_norm)(const float* x, const uint8_t* weight, int64_t n, float eps,
                   float* out) = nullptr;
};

extern const KernelTable kScalarKernels;
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvx512Kernels;

}  // namespace rose
