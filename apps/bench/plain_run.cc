#include "bench/plain_run.h"

#include <algorithm>
#include <numeric>

#include "models/step_runner.h"

namespace rose {
namespace {

constexpr size_t kChunk = 1024;

int32_t MostLikely(const Tensor& logits, int64_t row) {
  const float* const begin = logits.data<float>() + row * logits.dim(1);
  return static_cast<int32_t>(std::max_element(begin, begin + logits.dim(1)) - begin);
}

// The token behind a prompt.
int32_t RunPrompt(StepRunner& runner, int64_t sequence, std::span<const int32_t> prompt) {
  for (;;) {
    const size_t rows = std::min(prompt.size(), kChunk);
    const std::vector<int32_t> last(prompt.size() == rows ? 1 : 0, static_cast<int32_t>(rows - 1));
    const SequenceTokens step{sequence, prompt.first(rows)};
    const Tensor logits = runner.Run({&step, 1}, last);
    if (prompt.size() == rows) return MostLikely(logits, 0);
    prompt = prompt.subspan(rows);
  }
}

}  // namespace

Result<std::vector<std::vector<int32_t>>> MostLikelyTokens(
    const LoadedModel& loaded, const std::vector<std::vector<int32_t>>& prompts, int64_t tokens) {
  const int64_t users = std::ssize(prompts);
  ROSE_ASSIGN_OR_RETURN(
      const auto runner,
      StepRunner::Create(*loaded.model, *loaded.ops, users, std::ssize(prompts.front()) + tokens));
  std::vector<std::vector<int32_t>> said(users);
  for (int64_t u = 0; u < users; ++u) said[u].push_back(RunPrompt(*runner, u, prompts[u]));
  std::vector<int32_t> rows(users);
  std::iota(rows.begin(), rows.end(), 0);
  for (int64_t i = 1; i < tokens; ++i) {
    std::vector<SequenceTokens> step;
    for (int64_t u = 0; u < users; ++u) step.push_back({u, {&said[u].back(), 1}});
    const Tensor logits = runner->Run(step, rows);
    for (int64_t u = 0; u < users; ++u) said[u].push_back(MostLikely(logits, u));
  }
  return said;
}

}  // namespace rose
