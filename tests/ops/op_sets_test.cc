// cpu-fast against the reference: every op, every level of instructions, awkward sizes.
#include "ops/op_sets.h"

#include <algorithm>
#include <numeric>

namespace rose {
namespace {

constexpr float kEps = 1e-5f;

TEST(FastOps, GemmEqualsTheReference) {
  struct Shape {
    int64_t rows, cols;
  };
  const Shape bf16[] = {{1, 1}, {2, 7}, {3, 15}, {5, 16}, {7, 17}, {8, 33}, {65, 100}, {130, 320}};
  const Shape mxfp4[] = {{1, 32}, {3, 64}, {66, 96}, {9, 320}, {4, 2880}};
  const Shape fp8[] = {{1, 1}, {3, 100}, {129, 128}, {130, 129}, {5, 300}, {7, 2880}};
  CpuOps reference;
  for (OpSetCase& set : FastOpSets()) {
    SCOPED_TRACE(set.name);
    const auto check = [&](const WeightFormat& format, std::span<const Shape> shapes) {
      for (const Shape& shape : shapes) {
        for (int64_t tokens : {0, 1, 2, 3, 5, 6, 7, 13, 24, 25, 49}) {
          SCOPED_TRACE(StrCat(format.ToString(), " ", shape.rows, "x", shape.cols, " ", tokens));
          Inputs in(shape.rows * 7919 + shape.cols * 31 + tokens);
          const Tensor x = in.RandomF32({tokens, shape.cols});
          const Weight w = in.RandomMatrix(format, {shape.rows, shape.cols});
          const Weight bias = tokens % 2 == 0 ? Weight{} : in.RandomVector({shape.rows});
          PoisonArena(*set.ops);
          const std::vector<float> actual = ToVector(set.ops->Gemm(x, w, bias));
          reference.BeginStep({});
          ExpectNear(actual, ToVector(reference.Gemm(x, w, bias)), BoundOf(set.precision));
        }
      }
    };
    check(kBf16Format, bf16);
    check(kMxfp4Format, mxfp4);
    check(kFp8BlockFormat, fp8);
  }
}

TEST(FastOps, RowOpsEqualTheReference) {
  CpuOps reference;
  for (OpSetCase& set : FastOpSets()) {
    SCOPED_TRACE(set.name);
    for (int64_t tokens : {0, 1, 3, 17}) {
      for (int64_t hidden : {1, 3, 16, 31, 64, 320}) {
        SCOPED_TRACE(StrCat(tokens, "x", hidden));
        Inputs in(tokens * 1000 + hidden);
        const Weight table = in.RandomMatrix(kBf16Format, {11, hidden});
        const Weight norm = in.RandomVector({hidden});
        std::vector<int32_t> ids(tokens);
        for (int64_t t = 0; t < tokens; ++t) ids[t] = static_cast<int32_t>(t * 7 % 11);
        PoisonArena(*set.ops);
        reference.BeginStep({});
        const Step step{.tokens = ids};
        const Tensor x = set.ops->Embed(step, table);
        const Tensor y = reference.Embed(step, table);
        ExpectSameBits(x.data<float>(), y.data<float>(), x.elements());
        ExpectNear(ToVector(set.ops->RmsNorm(x, norm, kEps)),
                   ToVector(reference.RmsNorm(y, norm, kEps)), 1e-10);
        const std::vector<float> start = in.Values(tokens * hidden);
        Tensor a = in.F32(start, {tokens, hidden});
        Tensor b = in.F32(start, {tokens, hidden});
        ExpectNear(ToVector(set.ops->AddRmsNorm(a, x, norm, kEps)),
                   ToVector(reference.AddRmsNorm(b, y, norm, kEps)), 1e-10);
        ExpectSameBits(a.data<float>(), b.data<float>(), a.elements());
        std::vector<int32_t> rows;
        for (int64_t t = tokens - 1; t >= 0; t -= 2) rows.push_back(static_cast<int32_t>(t));
        const Tensor gathered = set.ops->GatherLogitRows(x, {.logit_rows = rows});
        const Tensor expected = reference.GatherLogitRows(y, {.logit_rows = rows});
        ASSERT_EQ(gathered.elements(), static_cast<int64_t>(rows.size()) * hidden);
        ExpectSameBits(gathered.data<float>(), expected.data<float>(), gathered.elements());
      }
    }
  }
}

struct AttentionCase {
  AttentionShape shape;
  int64_t window = 0;
  bool has_sinks = true;
};

// Runs three sequences of different lengths, each in chunks, and returns all outputs.
std::vector<float> RunAttention(OpSet& ops, const AttentionCase& c, int64_t chunk) {
  const int64_t lengths[] = {1, 70, 200};
  const std::vector<std::vector<int32_t>> tables = {{5}, {3, 0}, {1, 6, 2, 4}};
  Inputs in(c.shape.heads * 100 + c.shape.head_dim);
  const int64_t width = (c.shape.heads + 2 * c.shape.kv_heads) * c.shape.head_dim;
  std::vector<std::vector<float>> qkv;
  for (int64_t length : lengths) qkv.push_back(in.Values(length * width));
  const Weight sinks = c.has_sinks ? in.RandomVector({c.shape.heads}) : Weight{};
  Rope rope{.inv_freq = {}, .scale = 1.25f};
  for (int64_t i = 0; i < c.shape.head_dim / 2; ++i)
    rope.inv_freq.push_back(std::pow(100.0f, -static_cast<float>(i) / 8));
  const KvLayout layout{.groups = {{.window = c.window, .layers = {0}}},
                        .kv_heads = c.shape.kv_heads,
                        .head_dim = c.shape.head_dim};
  KvCache cache = ops.AllocateKv(layout, {7}).value();

  std::vector<std::vector<float>> outputs(3);
  PoisonArena(ops);
  for (int64_t start = 0; start < 200; start += chunk) {
    std::vector<StepInputs::Sequence> sequences;
    std::vector<float> rows;
    std::vector<size_t> who;
    for (size_t s = 0; s < 3; ++s) {
      const int64_t n = std::min(chunk, lengths[s] - start);
      if (n <= 0) continue;
      sequences.push_back({start, n, tables[s]});
      rows.insert(rows.end(), qkv[s].begin() + start * width, qkv[s].begin() + (start + n) * width);
      who.push_back(s);
    }
    const StepInputs step(sequences);
    ops.BeginStep({});
    Tensor x = in.F32(rows, {step.rows(), width});
    ops.RopeAppendKv(x, c.shape, {}, rope, cache.layers[0], step.step());
    const Tensor out = ops.PagedAttention(x, c.shape, sinks, cache.layers[0], step.step());
    const float* from = out.data<float>();
    for (size_t i = 0; i < who.size(); ++i) {
      const int64_t n = sequences[i].rows * c.shape.heads * c.shape.head_dim;
      outputs[who[i]].insert(outputs[who[i]].end(), from, from + n);
      from += n;
    }
  }
  std::vector<float> all;
  for (const auto& part : outputs) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// A page goes to the host, from there to another page, and on to a third: K and V of all layers of
// its group, and nothing else.
TEST(AllOps, PagesAreCopiedBetweenTheTiersInOrder) {
  const KvLayout layout{.groups = {{.window = 0, .layers = {1, 2}}, {.window = 8, .layers = {0}}},
                        .kv_heads = 2,
                        .head_dim = 4};
  for (OpSetCase& set : AllOpSets()) {
    SCOPED_TRACE(set.name);
    KvCache cache = set.ops->AllocateKv(layout, {4, 3}).value();
    KvCache host = set.ops->AllocateHostKv(layout, {2, 5}).value();
    const auto page = [](Tensor& tensor, int64_t index) {
      const int64_t bytes = tensor.elements() / tensor.dim(0) * ElementBytes(tensor.dtype());
      return std::span(static_cast<uint8_t*>(tensor.raw()) + index * bytes, bytes);
    };
    uint8_t fill = 1;
    for (KvLayer& layer : cache.layers) {
      for (Tensor* tensor : {&layer.keys, &layer.values}) {
        for (int64_t p = 0; p < tensor->dim(0); ++p) std::ranges::fill(page(*tensor, p), fill++);
      }
    }
    set.ops->CopyPages(cache, host,
                       {.to_host = {{0, 3, 1}}, .to_device = {{0, 1, 2}}, .within = {{0, 2, 0}}});
    fill = 1;
    for (KvLayer& layer : cache.layers) {
      for (Tensor* tensor : {&layer.keys, &layer.values}) {
        for (int64_t p = 0; p < tensor->dim(0); ++p) {
          const bool copied = layer.group == 0 && p != 1;
          const int expected = fill + (copied ? 3 - p : 0);
          EXPECT_TRUE(std::ranges::all_of(page(*tensor, p), [&](int b) { return b == expected; }));
          ++fill;
        }
      }
    }
    EXPECT_TRUE(std::ranges::all_of(page(host.layers[0].keys, 1), [](int b) { return b == 0; }));
  }
}

TEST(FastOps, AttentionEqualsTheReferenceInEveryChunking) {
  const AttentionCase cases[] = {{{1, 1, 64}, 0},        {{4, 1, 64}, 128},        {{5, 1, 32}, 64},
                                 {{8, 2, 64}, 0},        {{8, 8, 16}, 1},          {{6, 2, 6}, 3},
                                 {{64, 8, 64}, 128},     {{3, 1, 80}, 65},         {{2, 1, 2}, 0},
                                 {{8, 2, 64}, 0, false}, {{16, 1, 18}, 127, false}};
  CpuOps reference;
  for (const AttentionCase& c : cases) {
    const std::vector<float> expected = RunAttention(reference, c, 200);
    ExpectNear(RunAttention(reference, c, 13), expected, 1e-12);
    for (OpSetCase& set : FastOpSets()) {
      SCOPED_TRACE(StrCat(set.name, " heads ", c.shape.heads, "/", c.shape.kv_heads, " dim ",
                          c.shape.head_dim, " window ", c.window));
      const std::vector<float> whole = RunAttention(*set.ops, c, 200);
      ExpectNear(whole, expected, BoundOf(set.precision));
      for (int64_t chunk : {1, 7, 64}) {
        const std::vector<float> cut = RunAttention(*set.ops, c, chunk);
        ExpectSameBits(cut.data(), whole.data(), static_cast<int64_t>(whole.size()));
      }
    }
  }
}

TEST(FastOps, ExpertsEqualTheReference) {
  struct Shape {
    WeightFormat format;
    int64_t experts, hidden, inter, top_k;
  };
  const Shape shapes[] = {{kMxfp4Format, 8, 320, 320, 4},
                          {kMxfp4Format, 5, 64, 96, 3},
                          {kBf16Format, 3, 17, 5, 1},
                          {kBf16Format, 32, 64, 33, 4},
                          {kFp8BlockFormat, 4, 130, 140, 2}};
  CpuOps reference;
  for (const Shape& s : shapes) {
    for (int64_t tokens : {0, 1, 2, 9, 61}) {
      Inputs in(s.hidden + tokens);
      const Tensor x = in.RandomF32({tokens, s.hidden});
      const Weight router = in.RandomMatrix(kBf16Format, {s.experts, s.hidden});
      const Weight router_bias = in.RandomVector({s.experts});
      const Weight gate_up = in.RandomMatrix(s.format, {s.experts, 2 * s.inter, s.hidden});
      const Weight gate_up_bias = in.RandomVector({s.experts, 2 * s.inter});
      const Weight down = in.RandomMatrix(s.format, {s.experts, s.hidden, s.inter});
      const Weight down_bias = in.RandomVector({s.experts, s.hidden});
      reference.BeginStep({});
      const Routing expected = reference.Route(x, router, router_bias, static_cast<int>(s.top_k));
      const Tensor expected_inner = reference.ExpertsGateUp(x, expected, gate_up, gate_up_bias, {});
      const Tensor expected_out = reference.ExpertsDown(expected_inner, expected, down, down_bias);
      for (OpSetCase& set : FastOpSets()) {
        SCOPED_TRACE(StrCat(set.name, " ", s.format.ToString(), " ", s.hidden, " ", tokens));
        PoisonArena(*set.ops);
        const Routing routing = set.ops->Route(x, router, router_bias, static_cast<int>(s.top_k));
        ASSERT_TRUE(std::equal(routing.experts.data<int32_t>(),
                               routing.experts.data<int32_t>() + tokens * s.top_k,
                               expected.experts.data<int32_t>()));
        ExpectNear(ToVector(routing.weights), ToVector(expected.weights), 1e-10);
        const Tensor inner = set.ops->ExpertsGateUp(x, routing, gate_up, gate_up_bias, {});
        ExpectNear(ToVector(inner), ToVector(expected_inner), BoundOf(set.precision));
        const Tensor out = set.ops->ExpertsDown(inner, routing, down, down_bias);
        ExpectNear(ToVector(out), ToVector(expected_out), BoundOf(set.precision));
      }
    }
  }
}

TEST(FastOps, AWrongShapeIsOurBugAndNamesTheNumbers) {
  for (OpSetCase& set : AllOpSets()) {
    SCOPED_TRACE(set.name);
    Inputs in;
    const Tensor x = in.RandomF32({2, 8});
    const Weight w = in.RandomMatrix(kBf16Format, {4, 9});
    try {
      set.ops->Gemm(x, w, {});
      FAIL() << "no check";
    } catch (const CheckFailure& failure) {
      EXPECT_NE(std::string(failure.what()).find("weight: cols=8 but axis 1 is 9"),
                std::string::npos)
          << failure.what();
    }
  }
}

}  // namespace
}  // namespace rose
