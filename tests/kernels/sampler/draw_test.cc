// Draws on the device against the engine's sampler: the same tokens, whatever the options.
#include <gtest/gtest.h>

#include "device/cuda_check.h"
#include "device/memory.h"
#include "engine/draw_specs.h"
#include "engine/random_draws.h"
#include "ops/cuda/cuda_draws.h"

namespace rose {
namespace {

class DeviceDraw : public testing::Test {
 protected:
  void SetUp() override {
    if (CudaDevices() == 0) GTEST_SKIP() << "no GPU";
    CudaCheck(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
  }
  void TearDown() override {
    if (stream_ != nullptr) CudaCheck(cudaStreamDestroy(stream_), "destroying a stream");
  }

  // The draws of all rows at once.
  std::vector<int32_t> Draw(CudaDraws& queue, std::span<const RandomDraw> rows) {
    const int64_t vocab = std::ssize(rows.front().logits);
    const int64_t bytes = std::ssize(rows) * vocab * static_cast<int64_t>(sizeof(float));
    const DeviceMemory logits = AllocateDevice(bytes, "a test", "").value();
    DrawSpecs specs;
    for (size_t i = 0; i < rows.size(); ++i) {
      CudaCheck(cudaMemcpy(logits.get() + i * vocab * sizeof(float), rows[i].logits.data(),
                           vocab * sizeof(float), cudaMemcpyHostToDevice),
                "copying in");
      specs.Add(rows[i].row(), static_cast<int64_t>(i), vocab);
    }
    CudaCheck(cudaDeviceSynchronize(), "waiting");
    queue.Draw(Tensor(logits.get(), DType::kF32, {std::ssize(rows), vocab}), specs.specs());
    const std::span<const int32_t> drawn = queue.Wait();
    return {drawn.begin(), drawn.end()};
  }

  cudaStream_t stream_ = nullptr;
  OpTrail trail_{nullptr, {}};
};

void ExpectTheSamplers(std::span<const RandomDraw> rows, std::span<const int32_t> drawn) {
  Sampler sampler;
  for (size_t i = 0; i < rows.size(); ++i) {
    const SamplingParams& p = rows[i].params;
    SCOPED_TRACE(testing::Message() << "row " << i << ": temperature " << p.temperature
                                    << ", top_p " << p.top_p << ", top_k " << p.top_k << ", min_p "
                                    << p.min_p << ", mask of " << rows[i].mask.size());
    const Result<SampledToken> expected = sampler.Draw(rows[i].row());
    if (drawn[i] < 0) {
      EXPECT_TRUE(!expected.ok() || !rows[i].mask.empty());
    } else {
      ASSERT_TRUE(expected.ok());
      EXPECT_EQ(drawn[i], expected->id);
    }
  }
}

TEST_F(DeviceDraw, EqualsTheSampler) {
  std::mt19937_64 random(11);
  CudaDraws queue(stream_, trail_);
  for (const int64_t vocab : {2, 31, 64, 65, 1000, 1536, 40'000}) {
    for (const int64_t count : {1, 2, 33}) {
      SCOPED_TRACE(testing::Message() << count << " x " << vocab);
      std::vector<RandomDraw> rows;
      for (int64_t i = 0; i < count; ++i) rows.push_back(MakeRandomDraw(random, vocab));
      ExpectTheSamplers(rows, Draw(queue, rows));
      if (HasFailure()) return;
    }
  }
}

TEST_F(DeviceDraw, EqualsTheSamplerWithTheModelsVocabulary) {
  std::mt19937_64 random(12);
  CudaDraws queue(stream_, trail_);
  for (int round = 0; round < 6; ++round) {
    std::vector<RandomDraw> rows;
    for (int64_t i = 0; i < 16; ++i) rows.push_back(MakeRandomDraw(random, 201'088));
    ExpectTheSamplers(rows, Draw(queue, rows));
  }
}

// All equal, all but one excluded, nothing left, and zeros of both signs, which are one number.
TEST_F(DeviceDraw, EqualsTheSamplerAtTheEdges) {
  CudaDraws queue(stream_, trail_);
  constexpr int64_t kVocab = 201'088;
  std::vector<RandomDraw> rows(5);
  for (RandomDraw& row : rows) {
    row.logits.assign(kVocab, 1.5f);
    row.history = {1};
    row.prompt_tokens = 1;
    row.params.top_p = 0.5;
    row.params.top_k = 100'000;
    row.seed = 99;
  }
  rows[1].logits.assign(kVocab, std::nanf(""));
  rows[1].logits[kVocab - 1] = -3.0f;
  rows[2].logits.assign(kVocab, -std::numeric_limits<float>::infinity());
  for (int64_t i = 0; i < kVocab; ++i) rows[3].logits[i] = i % 2 == 0 ? 0.0f : -0.0f;
  rows[4] = rows[3];
  rows[4].params.temperature = 0;
  rows[4].logits[0] = -0.0f;
  const std::vector<int32_t> drawn = Draw(queue, rows);
  EXPECT_EQ(drawn[2], -1);
  ExpectTheSamplers(rows, drawn);
}

// Equal logits, of which options keep round shares, around as many as lists hold: one token too
// many or too few is another draw.
TEST_F(DeviceDraw, EqualsTheSamplerWhereSharesAreExact) {
  std::mt19937_64 random(15);
  CudaDraws queue(stream_, trail_);
  for (const int64_t equal : {1, 2, 4, 64, 1000, 4095, 4096, 4097}) {
    SCOPED_TRACE(testing::Message() << equal << " equal logits");
    std::vector<RandomDraw> rows;
    for (const double top_p : {0.25, 0.5, 0.75, 1.0}) {
      for (const int64_t top_k : {int64_t{0}, equal / 4, equal / 2, equal - 1, equal, equal + 1}) {
        RandomDraw& row = rows.emplace_back();
        // The others are less likely, in a bin of their own.
        for (int64_t id = 0; id < 6000; ++id) {
          row.logits.push_back(id * 7919 % 6000 < equal ? 2.0f : -9.0f);
        }
        row.history = {1};
        row.prompt_tokens = 1;
        row.params.temperature = 1;
        row.params.top_p = top_p;
        row.params.top_k = static_cast<int>(top_k);
        row.params.min_p = random() % 2 == 0 ? 1.0 : 0.0;
        row.seed = random();
      }
    }
    ExpectTheSamplers(rows, Draw(queue, rows));
    if (HasFailure()) return;
  }
}

// Few tokens far apart, each in a bin of its own: the last that top_k keeps is the first of its
// bin.
TEST_F(DeviceDraw, EqualsTheSamplerWhereBinsHaveOneToken) {
  std::mt19937_64 random(16);
  CudaDraws queue(stream_, trail_);
  std::vector<RandomDraw> rows;
  for (int i = 0; i < 200; ++i) {
    RandomDraw& row = rows.emplace_back();
    for (int id = 0; id < 8; ++id) row.logits.push_back(-0.3f * static_cast<float>(id * 5 % 8));
    row.history = {1};
    row.prompt_tokens = 1;
    row.params.temperature = 1;
    row.params.top_k = 1 + i % 8;
    row.params.top_p = i % 3 == 0 ? 1.0 : 0.5 + 0.05 * (i % 10);
    row.seed = random();
  }
  ExpectTheSamplers(rows, Draw(queue, rows));
}

// A vocabulary of which one CTA counts more tokens than its 32-bit sums hold at once, and of it
// only the tokens at round numbers and right before them.
TEST_F(DeviceDraw, EqualsTheSamplerWithTheLargestVocabularies) {
  constexpr int64_t kVocab = 262'144, kEvery = 256;
  std::mt19937_64 random(17);
  CudaDraws queue(stream_, trail_);
  std::vector<RandomDraw> rows;
  for (const int64_t top_k : {2000, 2016, 2040, 2047, 2048}) {
    RandomDraw& row = rows.emplace_back();
    row.logits.assign(kVocab, -std::numeric_limits<float>::infinity());
    for (int64_t id = 0; id < kVocab; id += kEvery) row.logits[id] = row.logits[id + 255] = 1.0f;
    row.history = {1};
    row.prompt_tokens = 1;
    row.params.temperature = 1;
    row.params.top_k = static_cast<int>(top_k);
    row.params.top_p = top_k == 2040 ? 0.5 : 1.0;
    row.seed = random();
  }
  for (int i = 0; i < 4; ++i) rows.push_back(MakeRandomDraw(random, kVocab));
  ExpectTheSamplers(rows, Draw(queue, rows));
}

// Ids that no text has (gpt-oss: 200019 to 201087) are forbidden; the largest logits are theirs.
TEST_F(DeviceDraw, Case063ReservedIdsAreNeverDrawn) {
  constexpr int64_t kVocab = 201'088, kFirstReserved = 200'019;
  std::mt19937_64 random(14);
  CudaDraws queue(stream_, trail_);
  std::vector<RandomDraw> rows;
  for (int i = 0; i < 8; ++i) {
    rows.push_back(MakeRandomDraw(random, kVocab));
    RandomDraw& row = rows.back();
    row.mask.clear();
    row.params.temperature = i % 2;
    row.forbidden.clear();
    for (int64_t id = kFirstReserved; id < kVocab; ++id) {
      row.forbidden.push_back(static_cast<int32_t>(id));
      row.logits[id] = id == 201'087 && i < 4 ? std::numeric_limits<float>::infinity() : 99.0f;
    }
  }
  const std::vector<int32_t> drawn = Draw(queue, rows);
  for (const int32_t id : drawn) {
    EXPECT_GE(id, 0);
    EXPECT_LT(id, kFirstReserved);
  }
  ExpectTheSamplers(rows, drawn);
}

TEST_F(DeviceDraw, FeedsTokens) {
  CudaDraws queue(stream_, trail_);
  std::mt19937_64 random(13);
  std::vector<RandomDraw> rows;
  for (int i = 0; i < 3; ++i) {
    rows.push_back(MakeRandomDraw(random, 100));
    rows.back().params = {};
    rows.back().params.temperature = 0;
    rows.back().mask.clear();
    rows.back().forbidden.clear();
  }
  rows[1].logits.assign(100, std::nanf(""));
  const std::vector<int32_t> drawn = Draw(queue, rows);
  const std::vector<int32_t> before(8, 7);
  const DeviceMemory tokens = AllocateDevice(8 * sizeof(int32_t), "a test", "").value();
  CudaCheck(cudaMemcpy(tokens.get(), before.data(), 8 * sizeof(int32_t), cudaMemcpyHostToDevice),
            "copying in");
  CudaCheck(cudaDeviceSynchronize(), "waiting");
  const FedRow fed[] = {{.row = 0, .draw = 2}, {.row = 5, .draw = 0}, {.row = 6, .draw = 1}};
  queue.Feed(fed, reinterpret_cast<int32_t*>(tokens.get()));
  CudaCheck(cudaStreamSynchronize(stream_), "waiting");
  std::vector<int32_t> after(8);
  CudaCheck(cudaMemcpy(after.data(), tokens.get(), 8 * sizeof(int32_t), cudaMemcpyDeviceToHost),
            "copying out");
  EXPECT_EQ(after, (std::vector<int32_t>{drawn[2], 7, 7, 7, 7, drawn[0], 0, 7}));
}

}  // namespace
}  // namespace rose
