#include "engine/draw_specs.h"

#include <gtest/gtest.h>

#include "engine/draw_reference.h"
#include "engine/random_draws.h"

namespace rose {
namespace {

TEST(DrawSpecs, DrawWhatTheSamplerDraws) {
  std::mt19937_64 random(5);
  Sampler sampler;
  DrawSpecs specs;
  int64_t nothing = 0;
  for (int round = 0; round < 3000; ++round) {
    SCOPED_TRACE(round);
    const RandomDraw draw = MakeRandomDraw(random, 2 + static_cast<int64_t>(random() % 200));
    specs.Clear();
    specs.Add(draw.row(), 0, std::ssize(draw.logits));
    const int32_t drawn = DrawByReference(draw.logits, specs.specs().front());
    const Result<SampledToken> expected = sampler.Draw(draw.row());
    if (drawn < 0) {
      // With a mask the sampler tries once more, which the device leaves to it.
      EXPECT_TRUE(!expected.ok() || !draw.mask.empty());
      ++nothing;
    } else {
      ASSERT_TRUE(expected.ok()) << expected.status().message();
      ASSERT_EQ(drawn, expected->id);
    }
  }
  EXPECT_GT(nothing, 0);
}

TEST(DrawSpecs, WhatOnlyTheHostCanDoIsSeen) {
  SamplingParams params;
  EXPECT_FALSE(NeedsHost(params));
  params.logit_bias = {{3, 1.0f}, {4, 1.0f}};
  EXPECT_FALSE(NeedsHost(params));
  params.logit_bias = {{3, 1.0f}, {3, 1.0f}};
  EXPECT_TRUE(NeedsHost(params));
  params = {};
  params.logprobs = 0;
  EXPECT_TRUE(NeedsHost(params));
}

}  // namespace
}  // namespace rose
