// Case 91: steps of a model with CUDA graphs and without give the same bits, while scratch memory
// grows between replays and prompts' chunks come between decode steps.
#include <algorithm>
#include <random>

#include "models/load.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/op_sets.h"

namespace rose {
namespace {

constexpr int64_t kSequences = 6, kPages = 5;

// A model with a cache, of which every sequence owns a run of pages.
class Machine {
 public:
  explicit Machine(bool has_graphs) : has_graphs_(has_graphs) {
    loaded_ = LoadModel(ROSE_SOURCE_DIR "/tests/data/toy-a", CreateCudaOps({}).value(),
                        /*threads=*/1, {})
                  .value();
    const KvLayout& layout = loaded_.model->info().kv;
    kv_ = loaded_.ops
              ->AllocateKv(layout, std::vector<int64_t>(layout.groups.size(), kSequences * kPages))
              .value();
  }

  std::vector<float> Run(const Step& step) {
    OpSet& ops = *loaded_.ops;
    const auto forward = [&] { return loaded_.model->Forward(ops, kv_, step); };
    ops.BeginStep(step);
    return ToVector(ops.ToHost(has_graphs_ ? ops.Replayed(step, forward) : forward()));
  }
  int64_t groups() const { return std::ssize(loaded_.model->info().kv.groups); }
  int64_t vocab() const { return loaded_.model->info().vocab; }

 private:
  bool has_graphs_;
  LoadedModel loaded_;
  KvCache kv_;
};

TEST(Case091, StepsWithGraphsAndWithoutAreTheSameBits) {
  if (!IsCudaThere()) GTEST_SKIP() << "no GPU";
  Machine with(true), without(false);
  std::vector<std::vector<int32_t>> tables(kSequences);
  for (int64_t p = 0; p < kSequences * kPages; ++p) {
    tables[p % kSequences].push_back(static_cast<int32_t>(p));
  }
  std::mt19937_64 random(7);
  std::vector<int64_t> lengths(kSequences, 0);
  for (int number = 0; number < 1500; ++number) {
    SCOPED_TRACE(testing::Message() << "step " << number);
    // Now and then a sequence begins anew, with a chunk; chunks grow, and scratch with them.
    const int64_t longest = 2 + number / 10;
    std::vector<int32_t> tokens, positions, logit_rows;
    std::vector<StepSeq> seqs;
    const bool has_chunk = random() % 4 == 0;
    const int64_t chunked = static_cast<int64_t>(random() % kSequences);
    for (int64_t s = 0; s < kSequences; ++s) {
      int64_t& length = lengths[s];
      const bool is_chunk = length == 0 || (has_chunk && s == chunked);
      if (is_chunk || length == kPages * KvLayout::kPageSize) length = 0;
      if (!is_chunk && random() % 8 == 0) continue;
      const int64_t rows = is_chunk ? 1 + static_cast<int64_t>(random() % longest) : 1;
      seqs.push_back({std::ssize(tokens), rows, length,
                      std::vector<std::span<const int32_t>>(with.groups(), tables[s])});
      for (int64_t row = 0; row < rows; ++row) {
        tokens.push_back(static_cast<int32_t>(random() % with.vocab()));
        positions.push_back(static_cast<int32_t>(length++));
      }
      logit_rows.push_back(static_cast<int32_t>(tokens.size() - 1));
    }
    if (seqs.empty()) continue;
    const Step step{tokens, positions, seqs, logit_rows};
    const std::vector<float> expected = without.Run(step), actual = with.Run(step);
    ExpectSameBits(actual.data(), expected.data(), std::ssize(expected));
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace rose
