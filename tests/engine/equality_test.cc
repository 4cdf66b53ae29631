// Must: a request gives the same alone and in every company (equality.h). 2,000 random runs over
// two models, and some over each toy of another family; each failure names its seed.
#include "engine/equality.h"

#include "ops/cpu_fast/cpu_fast_ops.h"

namespace rose {
namespace {

// Sanitizers find what they look for in fewer runs.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t kRunsOfShard = 25, kShards = 1, kRunsOfOthers = 5;
#else
constexpr uint64_t kRunsOfShard = 250, kShards = 4, kRunsOfOthers = 60;  // of each model
#endif

// A folder, the number of a shard, and its runs.
class Equality : public testing::TestWithParam<std::tuple<std::string, uint64_t, uint64_t>> {};

TEST_P(Equality, OfRandomRuns) {
  const auto& [folder, shard, count] = GetParam();
  EqualityRuns runs(folder, std::make_unique<CpuFastOps>(CpuFastConfig{.threads = 1}));
  const Seen seen = runs.Run(1 + shard * count, count);
  if (HasFatalFailure()) return;
  if (count < 50) return;  // too few to meet everything
  EXPECT_GT(seen.preemptions, 0);
  EXPECT_GT(seen.pipelined, 0);
  EXPECT_GT(seen.hits.size(), 8u) << "lengths of hits";
  if (count < 250) return;  // swapping is rare: some three times in 250 runs
  EXPECT_GT(seen.swapped_in, 0);
}

INSTANTIATE_TEST_SUITE_P(Engine, Equality,
                         testing::Combine(testing::Values("tests/data/toy-a", "models/rosebud"),
                                          testing::Range(uint64_t{0}, kShards),
                                          testing::Values(kRunsOfShard)));
INSTANTIATE_TEST_SUITE_P(
    Families, Equality,
    testing::Combine(testing::Values("tests/data/qwen3-moe-toy", "tests/data/qwen3-moe-toy-fp8"),
                     testing::Values(uint64_t{0}), testing::Values(kRunsOfOthers)));

}  // namespace
}  // namespace rose
