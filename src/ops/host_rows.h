// What the host op sets do alike, row by row, because plain loops are as fast as any.
#pragma once

#include <cstdint>
#include <span>

#include "ops/host_arena.h"
#include "ops/ops.h"

namespace rose {

// residual += delta, both F32 [tokens, hidden].
void AddRows(Tensor& residual, const Tensor& delta);

// Rows `rows` of x F32 [tokens, cols] -> [rows, cols].
Tensor CopyRows(const Tensor& x, std::span<const int32_t> rows, HostArena& arena);

// logits F32 [tokens, experts] -> the routing of every row (SelectExperts).
Routing RouteRows(const Tensor& logits, int top_k, HostArena& arena);

}  // namespace rose
