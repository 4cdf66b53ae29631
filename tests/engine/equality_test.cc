// Must: a request gives the same alone and in every company (equality.h). 2,000 random runs over
// two models; each failure names its seed.
#include "engine/equality.h"

#include "ops/cpu_fast/cpu_fast_ops.h"

namespace rose {
namespace {

// Sanitizers find what they look for in fewer runs.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t kRunsOfShard = 25, kShards = 1;
#else
constexpr uint64_t kRunsOfShard = 250, kShards = 4;  // of each model
#endif

class Equality : public testing::TestWithParam<std::tuple<std::string, uint64_t>> {};

TEST_P(Equality, OfRandomRuns) {
  const auto& [folder, shard] = GetParam();
  EqualityRuns runs(folder, std::make_unique<CpuFastOps>(CpuFastConfig{.threads = 1}));
  const Seen seen = runs.Run(1 + shard * kRunsOfShard, kRunsOfShard);
  if (HasFatalFailure()) return;
  if (kRunsOfShard < 100) return;  // too few to meet everything
  EXPECT_GT(seen.preemptions, 0);
  EXPECT_GT(seen.swapped_in, 0);
  EXPECT_GT(seen.pipelined, 0);
  EXPECT_GT(seen.hits.size(), 8u) << "lengths of hits";
}

INSTANTIATE_TEST_SUITE_P(Engine, Equality,
                         testing::Combine(testing::Values("tests/data/toy-a", "models/rosebud"),
                                          testing::Range(uint64_t{0}, kShards)));

}  // namespace
}  // namespace rose
