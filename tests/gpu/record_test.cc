// Steps that are recorded before the first of their kind give the bits of those that run plainly.
#include <gtest/gtest.h>

#include <cstring>

#include "models/load.h"
#include "models/warm_up.h"
#include "ops/cuda/cuda_ops.h"

namespace rose {
namespace {

constexpr int64_t kMost = 9;

// A step in which `sequences` decode, each at a position of its own in a page of its own.
struct Decodes {
  Decodes(int64_t sequences, size_t groups) : tables(sequences) {
    for (int32_t s = 0; s < sequences; ++s) {
      tokens.push_back(17 * s + static_cast<int32_t>(sequences));
      positions.push_back(s % 3);
      rows.push_back(s);
      tables[s] = {s};
      seqs.push_back({.first_row = s,
                      .rows = 1,
                      .start = s % 3,
                      .pages = std::vector<std::span<const int32_t>>(groups, tables[s])});
    }
  }
  Step step() const { return {tokens, positions, seqs, rows}; }

  std::vector<int32_t> tokens, positions, rows;
  std::vector<std::vector<int32_t>> tables;
  std::vector<StepSeq> seqs;
};

TEST(GpuRecord, StepsOfAllSizesHaveTheBitsOfPlainOnes) {
  if (!IsCudaThere()) GTEST_SKIP() << "no GPU";
  for (const char* folder : {"tests/data/toy-a", "tests/data/qwen3-moe-toy-fp8"}) {
    const LoadedModel loaded = LoadModel(folder, CreateCudaOps({}).value(), 1, {}).value();
    const Model& model = *loaded.model;
    OpSet& ops = *loaded.ops;
    ASSERT_TRUE(
        WarmUp(model, ops, {.rows = 64, .sequences = kMost, .context = 200, .logit_rows = kMost})
            .ok());
    const size_t groups = model.info().kv.groups.size();
    KvCache kv = ops.AllocateKv(model.info().kv, std::vector<int64_t>(groups, kMost)).value();
    RecordDecodes(model, ops, kv, kMost);
    int64_t plain_runs = 0;
    for (int64_t sequences = 1; sequences <= kMost; ++sequences) {
      const Decodes decodes(sequences, groups);
      const auto logits_of = [&](const std::function<Tensor(const Step&)>& run) {
        const Step step = decodes.step();
        ops.BeginStep(step);
        const Tensor logits = ops.ToHost(run(step));
        return std::vector<float>(logits.data<float>(), logits.data<float>() + logits.elements());
      };
      const std::vector<float> plain =
          logits_of([&](const Step& step) { return model.Forward(ops, kv, step); });
      const std::vector<float> replayed = logits_of([&](const Step& step) {
        return ops.Replayed(step, [&] {
          ++plain_runs;
          return model.Forward(ops, kv, step);
        });
      });
      ASSERT_EQ(plain.size(), replayed.size());
      EXPECT_EQ(std::memcmp(plain.data(), replayed.data(), plain.size() * sizeof(float)), 0)
          << folder << ", " << sequences << " sequences";
    }
    EXPECT_EQ(plain_runs, 0) << "all were recorded";
  }
}

}  // namespace
}  // namespace rose
