#include "ops/host_rows.h"

#include <algorithm>

#include "ops/expert_math.h"
#include "tensor/expect_shape.h"

namespace rose {

void AddRows(Tensor& residual, const Tensor& delta) {
  Dim tokens{"tokens"}, hidden{"hidden"};
  ExpectShape("residual", residual, DType::kF32, {&tokens, &hidden});
  ExpectShape("delta", delta, DType::kF32, {&tokens, &hidden});
  float* sum = residual.data<float>();
  const float* add = delta.data<float>();
  for (int64_t i = 0; i < residual.elements(); ++i) sum[i] += add[i];
}

Tensor CopyRows(const Tensor& x, std::span<const int32_t> rows, HostArena& arena) {
  Dim tokens{"tokens"}, cols{"cols"};
  ExpectShape("x", x, DType::kF32, {&tokens, &cols});
  Tensor out = arena.Take(DType::kF32, {static_cast<int64_t>(rows.size()), cols.value});
  float* to = out.data<float>();
  for (int32_t row : rows) {
    ROSE_CHECK(row >= 0 && row < tokens.value, "row ", row, " of ", tokens.value);
    std::copy_n(x.data<float>() + row * cols.value, cols.value, to);
    to += cols.value;
  }
  return out;
}

Routing RouteRows(const Tensor& logits, int top_k, HostArena& arena) {
  const int64_t tokens = logits.dim(0);
  const int64_t experts = logits.dim(1);
  ROSE_CHECK(top_k >= 1 && top_k <= experts, "top ", top_k, " of ", experts, " experts");
  Routing routing{arena.Take(DType::kI32, {tokens, top_k}),
                  arena.Take(DType::kF32, {tokens, top_k})};
  for (int64_t t = 0; t < tokens; ++t) {
    SelectExperts({logits.data<float>() + t * experts, static_cast<size_t>(experts)},
                  {routing.experts.data<int32_t>() + t * top_k, static_cast<size_t>(top_k)},
                  {routing.weights.data<float>() + t * top_k, static_cast<size_t>(top_k)});
  }
  return routing;
}

}  // namespace rose
