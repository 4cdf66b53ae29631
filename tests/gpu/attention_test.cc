// Rotary embedding, paged cache and attention of the CUDA op set: against the reference, in every
// chunking bit for bit, with pages of NaN where no row may look.
#include <cmath>

#include "gpu/gpu_case.h"

namespace rose {
namespace {

struct AttentionCase {
  AttentionShape shape;
  int64_t window = 0;
  bool has_sinks = true;
  bool has_norms = false;
  std::vector<int64_t> lengths = {1, 64, 65, 131, 200, 601, 1090};
};

void PrintTo(const AttentionCase& c, std::ostream* out) {
  *out << c.shape.heads << "/" << c.shape.kv_heads << " heads of " << c.shape.head_dim
       << ", window " << c.window << (c.has_sinks ? "" : ", no sinks")
       << (c.has_norms ? ", head norms" : "");
}

constexpr int64_t kPage = KvLayout::kPageSize;

class GpuAttention : public GpuTest<testing::TestWithParam<AttentionCase>> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    const AttentionCase& c = GetParam();
    if (IsSkipped()) return;
    width_ = (c.shape.heads + 2 * c.shape.kv_heads) * c.shape.head_dim;
    out_width_ = c.shape.heads * c.shape.head_dim;
    rope_.scale = 1.25f;
    for (int64_t i = 0; i < c.shape.head_dim / 2; ++i)
      rope_.inv_freq.push_back(std::pow(100.0f, -static_cast<float>(i) / 8));
    FastWeights in(c.shape.heads * 100 + c.shape.head_dim);
    int32_t page = 1;  // page 0 stays NaN
    for (int64_t length : lengths_) {
      qkv_.push_back(in.Values(length * width_, 2));
      tables_.emplace_back();
      for (int64_t p = 0; p < length; p += kPage) tables_.back().push_back(page++);
    }
    // Pages of a sequence are not in order.
    for (auto& table : tables_) std::reverse(table.begin(), table.end());
    pages_ = page;
    if (c.has_norms) {
      norms_ = {host_.RandomVector({c.shape.head_dim}), host_.RandomVector({c.shape.head_dim}),
                1e-6f};
      norms_on_gpu_ = {ops_->Adopt(norms_.q).value(), ops_->Adopt(norms_.k).value(), norms_.eps};
    }
    if (c.has_sinks) {
      sinks_ = host_.RandomVector({c.shape.heads});
      sinks_on_gpu_ = ops_->Adopt(sinks_).value();
    }
  }

  KvLayout Layout() const {
    const AttentionCase& c = GetParam();
    return {.groups = {{.window = c.window, .layers = {0}}},
            .kv_heads = c.shape.kv_heads,
            .head_dim = c.shape.head_dim};
  }

  // A cache of NaN.
  KvCache DirtyCache() {
    KvCache cache = ops_->AllocateKv(Layout(), {pages_}).value();
    CudaCheck(cudaDeviceSynchronize(), "waiting");
    for (Tensor* tensor : {&cache.layers[0].keys, &cache.layers[0].values}) {
      CudaCheck(cudaMemset(tensor->raw(), 0xff, tensor->bytes()), "filling with NaN");
    }
    CudaCheck(cudaDeviceSynchronize(), "waiting");
    return cache;
  }

  // All sequences side by side, each in chunks; frees pages that the window has left. Returns
  // turned q, k, v and outputs by sequence.
  struct Result {
    std::vector<std::vector<float>> qkv, out;
  };
  Result Run(int64_t chunk, bool one_by_one = false) {
    Result result{std::vector<std::vector<float>>(lengths_.size()),
                  std::vector<std::vector<float>>(lengths_.size())};
    KvCache cache = DirtyCache();
    if (one_by_one) {
      for (size_t s = 0; s < lengths_.size(); ++s) {
        for (int64_t start = 0; start < lengths_[s]; start += chunk)
          RunChunk(cache, start, chunk, {s}, result);
      }
      return result;
    }
    const int64_t longest = *std::max_element(lengths_.begin(), lengths_.end());
    for (int64_t start = 0; start < longest; start += chunk) {
      std::vector<size_t> who;
      for (size_t s = 0; s < lengths_.size(); ++s) {
        if (start < lengths_[s]) who.push_back(s);
      }
      RunChunk(cache, start, chunk, who, result);
    }
    return result;
  }

  void RunChunk(KvCache& cache, int64_t start, int64_t chunk, const std::vector<size_t>& who,
                Result& result) {
    const AttentionCase& c = GetParam();
    std::vector<StepInputs::Sequence> sequences;
    std::vector<float> rows;
    for (size_t s : who) {
      const int64_t n = std::min(chunk, lengths_[s] - start);
      std::vector<int32_t> table = tables_[s];
      for (int64_t p = 0; c.window > 0 && (p + 1) * kPage <= start - c.window + 1; ++p)
        table[p] = -1;
      sequences.push_back({start, n, table});
      const std::vector<float> part = Rows(qkv_[s], start, n, width_);
      rows.insert(rows.end(), part.begin(), part.end());
    }
    const StepInputs step(sequences);
    ops_->BeginStep(step.step());
    DeviceInputs device;
    Tensor x = device.Bf16s(rows, {step.rows(), width_});
    ops_->RopeAppendKv(x, c.shape, norms_on_gpu_, rope_, cache.layers[0], step.step());
    const Tensor out =
        ops_->PagedAttention(x, c.shape, sinks_on_gpu_, cache.layers[0], step.step());
    const std::vector<float> turned = Floats(*ops_, x), values = Floats(*ops_, out);
    int64_t row = 0;
    for (size_t i = 0; i < who.size(); ++i) {
      const int64_t n = sequences[i].rows;
      const std::vector<float> a = Rows(turned, row, n, width_),
                               b = Rows(values, row, n, out_width_);
      result.qkv[who[i]].insert(result.qkv[who[i]].end(), a.begin(), a.end());
      result.out[who[i]].insert(result.out[who[i]].end(), b.begin(), b.end());
      row += n;
    }
  }

  const std::vector<int64_t> lengths_ = GetParam().lengths;
  int64_t width_ = 0, out_width_ = 0, pages_ = 0;
  Rope rope_;
  Inputs host_;
  Weight sinks_, sinks_on_gpu_;
  HeadNorms norms_, norms_on_gpu_;
  std::vector<std::vector<float>> qkv_;
  std::vector<std::vector<int32_t>> tables_;
};

TEST_P(GpuAttention, EqualsTheReferenceInEveryChunking) {
  const AttentionCase& c = GetParam();
  const Result whole = Run(2048);
  const Rope no_turn{std::vector<float>(rope_.inv_freq.size(), 0.0f), 1.0f};
  for (size_t s = 0; s < lengths_.size(); ++s) {
    SCOPED_TRACE(testing::Message() << "length " << lengths_[s]);
    std::vector<int32_t> table(tables_[s].size());
    for (size_t p = 0; p < table.size(); ++p) table[p] = static_cast<int32_t>(p);
    KvCache cache = reference_.AllocateKv(Layout(), {std::ssize(table)}).value();
    const StepInputs step({{0, lengths_[s], table}});
    reference_.BeginStep(step.step());
    Tensor turned = host_.F32(qkv_[s], {lengths_[s], width_});
    reference_.RopeAppendKv(turned, c.shape, norms_, rope_, cache.layers[0], step.step());
    ExpectNear(whole.qkv[s], ToVector(turned), kBf16Bound);
    // Attention over what the GPU's cache holds.
    Tensor rounded = host_.F32(whole.qkv[s], {lengths_[s], width_});
    reference_.RopeAppendKv(rounded, c.shape, {}, no_turn, cache.layers[0], step.step());
    ExpectNear(
        whole.out[s],
        ToVector(reference_.PagedAttention(rounded, c.shape, sinks_, cache.layers[0], step.step())),
        kBf16Bound);
  }
  for (const auto& [chunk, one_by_one] : std::vector<std::pair<int64_t, bool>>{
           {2048, true}, {7, false}, {64, false}, {300, true}, {513, false}}) {
    SCOPED_TRACE(testing::Message() << "chunks of " << chunk << (one_by_one ? ", alone" : ""));
    const Result cut = Run(chunk, one_by_one);
    for (size_t s = 0; s < lengths_.size(); ++s) {
      SCOPED_TRACE(testing::Message() << "length " << lengths_[s]);
      ExpectSameBits(cut.qkv[s], whole.qkv[s]);
      ExpectSameBits(cut.out[s], whole.out[s]);
      if (HasFatalFailure()) return;
    }
  }
}

// One row a step, as decoding does.
TEST_P(GpuAttention, RowByRowEqualsTheWhole) {
  const Result whole = Run(2048);
  KvCache cache = DirtyCache();
  Result cut{std::vector<std::vector<float>>(lengths_.size()),
             std::vector<std::vector<float>>(lengths_.size())};
  // All but the last rows of the longest in one go, then single rows beside each other.
  const size_t longest = lengths_.size() - 1;
  const int64_t start = lengths_[longest] - 70;
  for (int64_t at = 0; at < 131; ++at) RunChunk(cache, at, 1, {3, 4}, cut);
  RunChunk(cache, 0, start, {longest}, cut);
  for (int64_t at = start; at < lengths_[longest]; ++at) RunChunk(cache, at, 1, {longest}, cut);
  ExpectSameBits(cut.out[3], whole.out[3]);
  ExpectSameBits(cut.out[4], Rows(whole.out[4], 0, 131, out_width_));
  ExpectSameBits(cut.out[longest], whole.out[longest]);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, GpuAttention,
    testing::Values(AttentionCase{{8, 2, 64}, 0}, AttentionCase{{8, 2, 64}, 128},
                    AttentionCase{{64, 8, 64}, 0}, AttentionCase{{64, 8, 64}, 128},
                    AttentionCase{{32, 4, 128}, 0, false, true},
                    AttentionCase{{4, 2, 64}, 0, false, true},
                    AttentionCase{{4, 4, 128}, 65, false}, AttentionCase{{5, 1, 64}, 64},
                    AttentionCase{{8, 8, 64}, 1}, AttentionCase{{6, 2, 32}, 3}));

// So small that compute-sanitizer's racecheck ends (scripts/gpu_sanitize.sh): a step of prompts,
// then one of rows and short chunks.
class GpuAttentionSteps : public GpuAttention {};

TEST_P(GpuAttentionSteps, AStepOfPromptsAndOneOfRows) {
  const Result whole = Run(2048);
  KvCache cache = DirtyCache();
  Result cut{std::vector<std::vector<float>>(lengths_.size()),
             std::vector<std::vector<float>>(lengths_.size())};
  for (const int64_t rows : {3, 6}) {  // decode rows, and a chunk
    for (size_t s = 0; s < lengths_.size(); ++s) {
      cut.qkv[s].clear(), cut.out[s].clear();
      RunChunk(cache, 0, lengths_[s] - rows, {s}, cut);
    }
    for (size_t s = 0; s < lengths_.size(); ++s) {
      RunChunk(cache, lengths_[s] - rows, rows, {s}, cut);
      ExpectSameBits(cut.out[s], whole.out[s]);
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Small, GpuAttentionSteps,
                         testing::Values(AttentionCase{{2, 1, 64}, 0, true, false, {64, 70, 520}},
                                         AttentionCase{{2, 1, 64}, 40, true, false, {64, 150}},
                                         // A row walks over several splits.
                                         AttentionCase{{2, 1, 64}, 700, true, false, {1100}},
                                         AttentionCase{{2, 1, 128}, 600, true, false, {1030}},
                                         AttentionCase{{2, 1, 128}, 0, false, true, {65, 520}},
                                         AttentionCase{{2, 1, 32}, 0, true, false, {64, 150}}));

}  // namespace
}  // namespace rose
