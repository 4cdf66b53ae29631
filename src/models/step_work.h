// What a step must at least read and multiply: the floor that measurements are held against.
#pragma once

#include <cstdint>
#include <vector>

#include "models/load.h"

namespace rose {

// One sequence's share of a step.
struct SequenceWork {
  int64_t start = 0;       // position of its first row
  int64_t rows = 0;        // tokens
  int64_t logit_rows = 0;  // of these, rows whose logits are wanted
};

struct StepWork {
  double bytes = 0;    // of weights and of the KV cache, each read once; of embeddings, rows alone
  double flops = 0;    // of matrix products and attention
  double experts = 0;  // of a layer, that are read: expected, if every row chose evenly
};

StepWork WorkOf(const LoadedModel& loaded, const std::vector<SequenceWork>& step);

}  // namespace rose
