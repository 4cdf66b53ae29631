// The tensor table: one row for every weight a model needs, with where to find it in each public
// checkpoint layout and how it is divided over GPUs. Loading, inspection, conversion and strictness
// checks all follow from it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/split.h"

namespace rose {

enum class TensorKind {
  kVector,   // BF16 [n]: norms, biases, sinks (also [experts, n])
  kMatrix,   // [rows, cols]; bf16, or fp8-block
  kExperts,  // [experts, rows, cols]; bf16, mxfp4 or fp8-block
};

// Where one weight can come from: checkpoint tensors that are joined along the rows (axis 0).
// A source is a stem: codecs look for stem + "_blocks"/"_scales" (or ".blocks"/".scales"),
// "_scale_inv" and so on.
//
// For kExperts it is one stem of the whole stack, whose bare BF16 form is transposed, [experts,
// cols, rows] (spec B.6); or stems with a '*', which stands for the number of an expert, each a
// matrix [rows / stems, cols] of its own. Rows of several such stems are woven: with a gate and an
// up, row 2i is the gate's row i and row 2i + 1 the up's.
using TensorSource = std::vector<std::string>;

// What a weight does in its model: decides how large made-up numbers are (random_recipe.h).
enum class TensorRole {
  kPlain,  // a matrix whose outputs are about as large as its inputs; a small bias
  kEmbedding,
  kNorm,     // factors around 1
  kSinks,    // logits of attention
  kAttnOut,  // from attention to the residual stream
  kRouter,
  kRouterBias,
  kGateUp,  // into an expert
  kDown,    // from an expert to the residual stream
  kLmHead,
};

struct TensorSpec {
  std::string name;  // as the model asks for it: "layers.3.qkv"
  TensorKind kind = TensorKind::kMatrix;
  std::vector<int64_t> shape;         // logical, whole model (before any split)
  std::vector<TensorSource> sources;  // alternatives, one for each layout, best first
  Split split = Split::kNone;
  Group group = Group::kNone;
  TensorRole role = TensorRole::kPlain;
  // Rows of each tensor of sources[0], where these are several: what a writer needs to know and a
  // reader finds out.
  std::vector<int64_t> part_rows = {};
};

}  // namespace rose
