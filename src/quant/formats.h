// The codecs by name, and what they share. Users take them from codec.h's registry.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "quant/codec.h"

namespace rose {

const Codec& Bf16Codec();
const Codec& Mxfp4Codec();
const Codec& Fp8BlockCodec();

// A logical weight shape as a stack of matrices: a vector is one row, [experts, rows, cols] as it
// is.
struct MatrixStack {
  int64_t experts = 1;
  int64_t rows = 1;
  int64_t cols = 0;
};
MatrixStack AsMatrixStack(std::span<const int64_t> shape);

// kInvalidArgument "tensor 'x' is F32 [3], expected BF16 [4]" unless type and shape are those.
Status ExpectStored(const StoredTensor& stored, DType dtype, std::span<const int64_t> shape);

// Row `row` of matrix `expert` as an index over all rows, checked with the size of `out`.
int64_t CheckedRow(const Weight& weight, int64_t expert, int64_t row, std::span<const float> out);

}  // namespace rose
