// An op as reports and profiles name it. Plain data: this header names no type of CUDA.
#pragma once

#include <cstdint>
#include <string>

namespace rose {

struct OpSize {
  const char* axis = nullptr;  // a literal
  int64_t size = 0;
};

struct OpRecord {
  static constexpr int kMostSizes = 5;
  const char* name = nullptr;  // a literal: "experts_down"; null = no op
  int32_t layer = -1;          // -1: it belongs to no layer
  int32_t size_count = 0;
  int32_t mark = 0;  // that its kernel leaves (progress_mark.h), one of its step; 0 = none
  OpSize sizes[kMostSizes];

  // "gemm [tokens=1, rows=5120, cols=2880]"
  std::string ToString() const;
};

// How long a stream was at an op, or at none.
struct TimedOp {
  OpRecord op;
  double us = 0;
};

enum class OpTiming {
  kOff,
  kSteps,  // upload, draw, and between them the whole forward pass as one op "forward"
  kOps,    // every op, also within recorded work; one step at a time, for marks are overwritten
};

}  // namespace rose
