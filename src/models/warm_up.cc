#include "models/warm_up.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/out_of_memory.h"
#include "ops/draw_queue.h"

namespace rose {
namespace {

// Draws from every row, with all that a draw may need memory for but edits.
void DrawAll(OpSet& ops, const Tensor& logits) {
  if (ops.draws() == nullptr) return;
  std::vector<DrawSpec> specs(logits.dim(0));
  for (size_t i = 0; i < specs.size(); ++i) {
    specs[i].row = static_cast<int64_t>(i);
    specs[i].rule = {.inverse_temperature = 1, .top_k = 1, .top_p = 0.5};
  }
  ops.draws()->Draw(logits, specs);
  (void)ops.draws()->Wait();
}

// A step of equal sequences that end at `end`, with made-up tokens; all positions lie in page 0.
class MadeUpStep {
 public:
  MadeUpStep(const Model& model, int64_t sequences, int64_t rows_of_each, int64_t end,
             int64_t logit_rows)
      : tokens_(sequences * rows_of_each, 0),
        table_((end + KvLayout::kPageSize - 1) / KvLayout::kPageSize, 0),
        logits_(std::min(logit_rows, sequences * rows_of_each)) {
    std::iota(logits_.begin(), logits_.end(),
              static_cast<int32_t>(std::ssize(tokens_) - std::ssize(logits_)));
    for (int64_t s = 0; s < sequences; ++s) {
      seqs_.push_back(
          {.first_row = s * rows_of_each,
           .rows = rows_of_each,
           .start = end - rows_of_each,
           .pages = std::vector<std::span<const int32_t>>(model.info().kv.groups.size(), table_)});
      for (int64_t i = 0; i < rows_of_each; ++i) {
        positions_.push_back(static_cast<int32_t>(end - rows_of_each + i));
      }
    }
  }
  Step step() const { return {tokens_, positions_, seqs_, logits_}; }

 private:
  std::vector<int32_t> tokens_, table_, positions_, logits_;
  std::vector<StepSeq> seqs_;
};

void RunStep(const Model& model, OpSet& ops, KvCache& kv, const MadeUpStep& made_up) {
  const Step step = made_up.step();
  ops.BeginStep(step);
  const Tensor result = model.Forward(ops, kv, step);
  DrawAll(ops, result);
  (void)ops.ToHost(result);
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
    RunStep(model, ops, kv,
            MadeUpStep(model, /*sequences=*/1, rows, /*end=*/rows, most.logit_rows));
    RunStep(model, ops, kv,
            MadeUpStep(model, sequences, /*rows_of_each=*/1, context, most.logit_rows));
  } catch (const OutOfMemory& error) {
    return Unavailable(error.what());
  }
  return Status();
}

void RecordDecodes(const Model& model, OpSet& ops, KvCache& kv, int64_t most) {
  for (int64_t sequences = 1; sequences <= most; ++sequences) {
    const MadeUpStep made_up(model, sequences, /*rows_of_each=*/1, /*end=*/1, sequences);
    const Step step = made_up.step();
    ops.BeginStep(step);
    if (!ops.Record(step, [&] { return model.Forward(ops, kv, step); })) return;
  }
}

}  // namespace rose
