// Steps of attention with made-up queries, keys and values, computed on the GPU and by ops/cpu.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/dtype.h"

namespace rose {

struct AttentionCase {
  int64_t heads = 8, kv_heads = 1, head_dim = 64;
  int64_t window = 0;
  bool has_sinks = true;
  float sink = 0;       // added to all sinks
  float spread = 1.7f;  // of queries and keys: scores vary by its square
  int64_t queries() const { return heads * head_dim; }
};

// Rows [start, start + rows) of the text `text`; the same text has the same numbers everywhere.
struct CaseSeq {
  int64_t text = 0, start = 0, rows = 0;
};

// The step on the GPU. Everything that must not be read is NaN: keys and values behind the last
// row and before the window, freed pages, the rest of qkv. ADD_FAILUREs if something is written
// beside the output. [rows, heads * head_dim]
std::vector<Bf16> OnGpu(const AttentionCase& c, const std::vector<CaseSeq>& seqs);

// The same by ops/cpu, in f32.
std::vector<float> OnCpu(const AttentionCase& c, const std::vector<CaseSeq>& seqs);

}  // namespace rose
