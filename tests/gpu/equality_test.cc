// Must: the equalities of the engine on the GPU, bit for bit.
#include "engine/equality.h"

#include "ops/cuda/cuda_ops.h"

namespace rose {
namespace {

class GpuEquality : public testing::TestWithParam<std::string> {};

TEST_P(GpuEquality, OfRandomRuns) {
  if (!IsCudaThere()) GTEST_SKIP() << "no GPU";
  EqualityRuns runs(GetParam(), CreateCudaOps({}).value());
  const Seen seen = runs.Run(/*first_seed=*/1, /*runs=*/120);
  if (HasFatalFailure()) return;
  EXPECT_GT(seen.preemptions, 0);
  EXPECT_GT(seen.swapped_in, 0);
  EXPECT_GT(seen.pipelined, 0);
  EXPECT_GT(seen.hits.size(), 8u) << "lengths of hits";
}

INSTANTIATE_TEST_SUITE_P(Engine, GpuEquality,
                         testing::Values("tests/data/toy-a", "models/rosebud"));

}  // namespace
}  // namespace rose
