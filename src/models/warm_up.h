// Runs the largest steps of an engine once, before anything else needs the memory.
#pragma once

#include <cstdint>

#include "models/model.h"

namespace rose {

struct LargestStep {
  int64_t rows = 0;        // tokens of a step
  int64_t sequences = 0;   // that decode in one step
  int64_t context = 0;     // tokens of the longest
  int64_t logit_rows = 0;  // of a step
};

// One step of a long prompt, and one of many decodes, with made-up tokens over a cache of one page:
// a device takes its arenas, and loads its kernels. kUnavailable, saying which option to change, if
// there is no memory.
Status WarmUp(const Model& model, OpSet& ops, const LargestStep& most);

// Records (OpSet::Record) the steps that decode 1, 2, .. `most` sequences over `kv`, as far as the
// op set records any. Behind a WarmUp of at least as many.
void RecordDecodes(const Model& model, OpSet& ops, KvCache& kv, int64_t most);

}  // namespace rose
