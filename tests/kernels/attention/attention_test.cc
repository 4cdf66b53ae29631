#include "kernels/attention/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "base/check.h"
#include "device/cuda_check.h"
#include "kernels/attention/attention_case.h"

namespace rose {
namespace {

class Attention : public testing::Test {
 protected:
  void SetUp() override {
    if (CudaDevices() == 0) GTEST_SKIP() << "no GPU";
  }
};

// Every head of every row on its own: one wrong row must not hide among right ones.
void ExpectEqualsCpu(const AttentionCase& c, const std::vector<CaseSeq>& seqs) {
  const std::vector<Bf16> got = OnGpu(c, seqs);
  const std::vector<float> want = OnCpu(c, seqs);
  ASSERT_EQ(got.size(), want.size());
  for (size_t at = 0; at < want.size(); at += c.head_dim) {
    double dot = 0, got2 = 0, want2 = 0;
    for (int64_t d = 0; d < c.head_dim; ++d) {
      const double g = ToFloat(got[at + d]), w = want[at + d];
      ASSERT_TRUE(std::isfinite(g)) << "row " << at / c.queries() << " at " << at % c.queries() + d
                                    << " is " << g << " not " << w;
      dot += g * w, got2 += g * g, want2 += w * w;
    }
    if (want2 < 1e-20) {  // all but nothing is left beside the sink
      ASSERT_LT(got2, 1e-19) << "row " << at / c.queries();
      continue;
    }
    ASSERT_LT(1 - dot / std::sqrt(got2 * want2), 1e-5)
        << "row " << at / c.queries() << " head " << at % c.queries() / c.head_dim << " begins "
        << ToFloat(got[at]) << " not " << want[at];
    // Two roundings to bf16: of a weight, which may be all there is, and of the output.
    ASSERT_NEAR(std::sqrt(got2 / want2), 1, 2.0 / 256) << "row " << at / c.queries();
  }
}

// A row of each run against the same row of `whole`, which is one chunk [start, start + rows).
void ExpectSameBits(const AttentionCase& c, const std::vector<Bf16>& whole, int64_t start,
                    const std::vector<CaseSeq>& seqs) {
  const std::vector<Bf16> got = OnGpu(c, seqs);
  int64_t row = 0;
  for (const CaseSeq& seq : seqs) {
    for (int64_t at = seq.start; at < seq.start + seq.rows; ++at, ++row) {
      if (seq.text != 0) continue;
      for (int64_t i = 0; i < c.queries(); ++i) {
        ASSERT_EQ(got[row * c.queries() + i].bits, whole[(at - start) * c.queries() + i].bits)
            << "position " << at << " of rows " << seq.start << " +" << seq.rows << " at " << i
            << ": " << ToFloat(got[row * c.queries() + i]) << " not "
            << ToFloat(whole[(at - start) * c.queries() + i]);
      }
    }
  }
}

const AttentionCase kShapes[] = {
    {.heads = 8, .kv_heads = 1, .head_dim = 64},
    {.heads = 8, .kv_heads = 2, .head_dim = 64},
    {.heads = 16, .kv_heads = 2, .head_dim = 128, .has_sinks = false},
    {.heads = 3, .kv_heads = 3, .head_dim = 64},
    {.heads = 12, .kv_heads = 1, .head_dim = 128},
    {.heads = 20, .kv_heads = 2, .head_dim = 64},
    {.heads = 4, .kv_heads = 2, .head_dim = 32},
    {.heads = 6, .kv_heads = 2, .head_dim = 72},
};

TEST_F(Attention, EqualsTheCpuInMixedSteps) {
  for (const AttentionCase& shape : kShapes) {
    for (const int64_t window : {0, 1, 63, 64, 65, 128, 700}) {
      SCOPED_TRACE(testing::Message() << "heads " << shape.heads << "/" << shape.kv_heads << " of "
                                      << shape.head_dim << " window " << window);
      AttentionCase c = shape;
      c.window = window;
      ExpectEqualsCpu(c, {{1, 0, 1},
                          {2, 63, 1},
                          {3, 0, 70},
                          {4, 64, 1},
                          {5, 65, 2},
                          {12, 300, 4},
                          {13, 301, 32},
                          {6, 500, 40},
                          {7, 511, 1},
                          {8, 512, 1},
                          {9, 513, 5},
                          {10, 127, 3},
                          {11, 1100, 1}});
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(Attention, EqualsTheCpuInLongContexts) {
  for (const int64_t window : {0, 128}) {
    AttentionCase c{.heads = 8, .kv_heads = 1, .head_dim = 64, .window = window};
    // 20 splits: what one row left is merged in more than one go.
    ExpectEqualsCpu(c, {{1, 9999, 1}, {2, 8191, 2}, {3, 8703, 4}});
    ExpectEqualsCpu(c, {{1, 4999, 1}, {2, 4800, 130}, {3, 4095, 1}, {4, 4096, 1}, {5, 3000, 7}});
    c = {.heads = 8, .kv_heads = 1, .head_dim = 128, .window = window, .has_sinks = false};
    ExpectEqualsCpu(c, {{1, 4999, 1}, {2, 4900, 40}, {3, 2047, 1}});
  }
}

TEST_F(Attention, EqualsTheCpuWhereSinksOrScoresAreExtreme) {
  for (const float sink : {-1000.0f, -20.0f, 20.0f, 60.0f, 1000.0f}) {
    for (const float spread : {0.01f, 6.0f}) {
      SCOPED_TRACE(testing::Message() << "sink " << sink << " spread " << spread);
      const AttentionCase c{.heads = 8, .kv_heads = 1, .sink = sink, .spread = spread};
      ExpectEqualsCpu(c, {{1, 0, 1}, {2, 600, 1}, {3, 0, 40}, {4, 500, 20}});
      if (HasFatalFailure()) return;
    }
  }
}

// The lists of work are made for 256 sequences at a time.
TEST_F(Attention, EqualsTheCpuInStepsOfManySequences) {
  for (const int64_t window : {0, 64}) {
    const AttentionCase c{.heads = 2, .kv_heads = 2, .head_dim = 64, .window = window};
    std::vector<CaseSeq> seqs;
    for (int64_t i = 0; i < 523; ++i) {
      const int64_t rows = i % 11 == 0 ? 7 + i % 300 : 1 + i % 4;
      seqs.push_back({i % 50, i % 13 == 0 ? 500 + i : i % 70, rows});
    }
    ExpectEqualsCpu(c, seqs);
  }
}

// Decode rows of more splits than the workspace has slots for: those of the last sequences are
// walked by one CTA.
TEST_F(Attention, ARowHasTheSameBitsWhereSplitsFindNoSlot) {
  const AttentionCase c{.heads = 2, .kv_heads = 1, .head_dim = 64};
  constexpr int64_t kStart = 20'000;  // 40 splits
  const std::vector<Bf16> whole = OnGpu(c, {{0, kStart, 4}});
  ExpectSameBits(c, whole, kStart, std::vector<CaseSeq>(30, {0, kStart, 4}));
}

// Tiles of the prefill kernel have 256 or 128 queries.
TEST_F(Attention, EqualsTheCpuAroundAWholeTile) {
  for (const AttentionCase& shape : kShapes) {
    const int64_t queries = shape.head_dim == 64 ? 256 : shape.head_dim == 128 ? 128 : 64;
    const int64_t tile = queries / (shape.heads / shape.kv_heads);
    SCOPED_TRACE(testing::Message()
                 << "heads " << shape.heads << "/" << shape.kv_heads << " of " << shape.head_dim);
    AttentionCase c = shape;
    for (const int64_t window : {0, 40}) {
      c.window = window;
      ExpectEqualsCpu(c, {{1, 5, tile - 1}, {2, 0, tile}, {3, 60, tile + 1}, {4, 9, 2 * tile + 1}});
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(Attention, TakesNoRows) {
  EXPECT_TRUE(OnGpu({}, {}).empty());
  EXPECT_EQ(OnGpu({}, {{1, 5, 0}, {2, 70, 1}, {3, 0, 0}}).size(), 512u);
}

TEST_F(Attention, ARowHasTheSameBitsInAnyChunkAndBatch) {
  std::mt19937_64 random(3);
  for (const AttentionCase& shape : kShapes) {
    for (const int64_t window : {0, 100}) {
      for (const int64_t start : {0, 900}) {
        SCOPED_TRACE(testing::Message()
                     << "heads " << shape.heads << "/" << shape.kv_heads << " of " << shape.head_dim
                     << " window " << window << " start " << start);
        AttentionCase c = shape;
        c.window = window;
        const int64_t rows = 150;
        const std::vector<Bf16> whole = OnGpu(c, {{0, start, rows}});
        for (const int64_t chunk : {1, 2, 4, 5, 31, 64, 65, 101}) {
          std::vector<CaseSeq> seqs;  // every chunk as a sequence of its own, among others
          for (int64_t at = 0; at < rows; at += chunk) {
            if (static_cast<int64_t>(random() % 16) > chunk) continue;  // not all of the short ones
            seqs.push_back({0, start + at, std::min(chunk, rows - at)});
            if (random() % 4 == 0) {
              seqs.push_back(
                  {9, static_cast<int64_t>(random() % 600), static_cast<int64_t>(random() % 70)});
            }
          }
          ExpectSameBits(c, whole, start, seqs);
          if (HasFatalFailure()) return;
        }
        ExpectSameBits(c, whole, start, {{0, start + rows - 1, 1}});  // alone
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(Attention, ARowHasTheSameBitsInLongContexts) {
  for (const int64_t window : {0, 128}) {
    for (const int64_t dim : {64, 128}) {
      const AttentionCase c{.heads = 8, .kv_heads = 1, .head_dim = dim, .window = window};
      const std::vector<Bf16> whole = OnGpu(c, {{0, 4600, 400}});
      std::vector<CaseSeq> seqs;
      for (int64_t at = 4600; at < 5000; at += 13) seqs.push_back({0, at, 1});
      seqs.push_back({0, 4700, 111});
      seqs.push_back({0, 4863, 137});
      ExpectSameBits(c, whole, 4600, seqs);
    }
  }
}

TEST(AttentionLaunch, RefusesWhatItCannotRead) {
  EXPECT_THROW(AttentionWorkspaceBytes({.heads = 3, .kv_heads = 2, .head_dim = 64}), CheckFailure);
  EXPECT_THROW(AttentionWorkspaceBytes({.heads = 2, .kv_heads = 2, .head_dim = 65}), CheckFailure);
  EXPECT_THROW(AttentionWorkspaceBytes({.heads = 2, .kv_heads = 2, .head_dim = 256}), CheckFailure);
  EXPECT_THROW(AttentionWorkspaceBytes({.heads = 65, .kv_heads = 1, .head_dim = 64}), CheckFailure);
}

}  // namespace
}  // namespace rose
