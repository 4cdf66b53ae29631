#include "models/step_runner.h"

#include <numeric>

namespace rose {

Result<std::unique_ptr<StepRunner>> StepRunner::Create(const Model& model, OpSet& ops,
                                                       int64_t sequences, int64_t max_tokens) {
  const KvLayout& layout = model.info().kv;
  const int64_t pages = (max_tokens + KvLayout::kPageSize - 1) / KvLayout::kPageSize;
  std::unique_ptr<StepRunner> runner(new StepRunner(model, ops));
  ROSE_ASSIGN_OR_RETURN(
      runner->kv_,
      ops.AllocateKv(layout, std::vector<int64_t>(layout.groups.size(), sequences * pages)));
  for (int64_t s = 0; s < sequences; ++s) {
    std::vector<int32_t> table(pages);
    std::iota(table.begin(), table.end(), static_cast<int32_t>(s * pages));
    runner->pages_.push_back(std::move(table));
  }
  runner->lengths_.assign(sequences, 0);
  return runner;
}

Tensor StepRunner::Run(std::span<const SequenceTokens> step, std::span<const int32_t> logit_rows) {
  std::vector<int32_t> tokens, positions;
  std::vector<StepSeq> seqs;
  for (const SequenceTokens& part : step) {
    const std::vector<int32_t>& table = pages_[part.sequence];
    int64_t& length = lengths_[part.sequence];
    const int64_t rows = static_cast<int64_t>(part.tokens.size());
    ROSE_CHECK_LE(length + rows, static_cast<int64_t>(table.size()) * KvLayout::kPageSize);
    seqs.push_back(
        {.first_row = static_cast<int64_t>(tokens.size()),
         .rows = rows,
         .start = length,
         .pages = std::vector<std::span<const int32_t>>(model_.info().kv.groups.size(), table)});
    for (int32_t token : part.tokens) {
      tokens.push_back(token);
      positions.push_back(static_cast<int32_t>(length++));
    }
  }
  const Step inputs{tokens, positions, seqs, logit_rows};
  ops_.BeginStep(inputs);
  return ops_.ToHost(model_.Forward(ops_, kv_, inputs));
}

void StepRunner::Truncate(int64_t sequence, int64_t length) {
  ROSE_CHECK(length >= 0 && length <= lengths_[sequence], "to ", length, " from ",
             lengths_[sequence]);
  lengths_[sequence] = length;
}

}  // namespace rose
