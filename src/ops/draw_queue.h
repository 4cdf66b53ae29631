// DrawQueue: how an op set that draws tokens on its device does it, so that steps can be enqueued
// before the host has seen the draws of the steps before.
#pragma once

#include <cstdint>
#include <span>

#include "base/draw.h"
#include "tensor/tensor.h"

namespace rose {

// One token to draw.
struct DrawSpec {
  int64_t row = 0;  // of the logits
  DrawRule rule;
  std::span<const LogitEdit> edits = {};  // each id once
  std::span<const uint32_t> mask = {};    // tokens allowed, as SampleRow::mask; empty = all
};

class DrawQueue {
 public:
  virtual ~DrawQueue() = default;

  // Enqueues draws of the step that began last: from its logits F32 [rows, vocab], with the bits of
  // engine/sampler.h. Specs and what they point to may go when it returns. At most one Draw a step,
  // and two that nobody has waited for.
  virtual void Draw(const Tensor& logits, std::span<const DrawSpec> draws) = 0;
  // The tokens of the oldest Draw, -1 where there is none left to draw; waits for them. Valid until
  // the next Wait.
  virtual std::span<const int32_t> Wait() = 0;
};

}  // namespace rose
