#include "models/warm_up.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/out_of_memory.h"

namespace rose {
namespace {

// A step of equal sequences that end at `end`; all positions lie in page 0.
void RunStep(const Model& model, OpSet& ops, KvCache& kv, int64_t sequences, int64_t rows_of_each,
             int64_t end, int64_t logit_rows) {
  const int64_t rows = sequences * rows_of_each;
  const std::vector<int32_t> tokens(rows, 0);
  const std::vector<int32_t> table((end + KvLayout::kPageSize - 1) / KvLayout::kPageSize, 0);
  std::vector<int32_t> positions, logits(std::min(logit_rows, rows));
  std::iota(logits.begin(), logits.end(), static_cast<int32_t>(rows - std::ssize(logits)));
  std::vector<StepSeq> seqs;
  for (int64_t s = 0; s < sequences; ++s) {
    seqs.push_back(
        {.first_row = s * rows_of_each,
         .rows = rows_of_each,
         .start = end - rows_of_each,
         .pages = std::vector<std::span<const int32_t>>(model.info().kv.groups.size(), table)});
    for (int64_t i = 0; i < rows_of_each; ++i) {
      positions.push_back(static_cast<int32_t>(end - rows_of_each + i));
    }
  }
  const Step step{tokens, positions, seqs, logits};
  ops.BeginStep(step);
  (void)ops.ToHost(model.Forward(ops, kv, step));
}

}  // namespace

Status WarmUp(const Model& model, OpSet& ops, const LargestStep& most) {
  ROSE_ASSIGN_OR_RETURN(
      KvCache kv,
      ops.AllocateKv(model.info().kv, std::vector<int64_t>(model.info().kv.groups.size(), 1)));
  const int64_t context = std::max<int64_t>(1, most.context);
  const int64_t rows = std::clamp<int64_t>(most.rows, 1, context);
  const int64_t sequences = std::clamp<int64_t>(most.sequences, 1, std::max<int64_t>(1, most.rows));
  try {
    RunStep(model, ops, kv, /*sequences=*/1, rows, /*end=*/rows, most.logit_rows);
    RunStep(model, ops, kv, sequences, /*rows_of_each=*/1, context, most.logit_rows);
  } catch (const OutOfMemory& error) {
    return Unavailable(error.what());
  }
  return Status();
}

}  // namespace rose
