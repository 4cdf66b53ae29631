// The times of single ops, added up by family, with what each family had to read and multiply.
#pragma once

#include <string>
#include <vector>

#include "device/op_record.h"
#include "models/load.h"
#include "models/step_work.h"

namespace rose {

// Ops that do the same for the same sizes of weights, over the layers of a step.
struct OpFamily {
  std::string name;      // "gemm 5120x2880", "attention of 128"
  double count = 0;      // in a step
  double us = 0;         // of a step, all of them: the median over steps
  double marked_us = 0;  // as measured, with an event behind each
  double bytes = -1;     // of weights and KV pages that a step reads, expected; -1 = unknown
  double flops = -1;     // of products in a step; likewise
};

// One step: which sequences it had, and what the device was at, in order.
struct TimedStep {
  std::vector<SequenceWork> seqs;
  std::vector<TimedOp> ops;
};

// In the order in which a step has them. Time at no op is left out.
std::vector<OpFamily> FamiliesOf(const LoadedModel& loaded, const std::vector<TimedStep>& steps);

// Events between ops take time, and ops that follow each other cannot overlap: takes the same from
// every op of the forward pass, so that together they take `forward_us`, which was measured without
// events between them. Returns how much.
double TakeOffMarks(std::vector<OpFamily>& families, double forward_us);

}  // namespace rose
