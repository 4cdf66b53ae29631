// Known faults of other servers in attention and positions (sinks, windows, pages, YaRN), on every
// op set; and the numbers of spec A.5.
#include <numeric>

#include "ops/op_sets.h"

namespace rose {
namespace {

constexpr int64_t kPage = KvLayout::kPageSize;

// A layer's cache and sequences in it, whose keys and values a test writes as it likes.
struct AttentionRig {
  AttentionRig(OpSet& ops, AttentionShape shape, int64_t window, int64_t pages)
      : ops(ops), shape(shape), no_turn{std::vector<float>(shape.head_dim / 2, 0.0f), 1.0f} {
    layout = {.groups = {{.window = window, .layers = {0}}},
              .kv_heads = shape.kv_heads,
              .head_dim = shape.head_dim};
    cache = ops.AllocateKv(layout, {pages}).value();
  }
  int64_t width() const { return (shape.heads + 2 * shape.kv_heads) * shape.head_dim; }
  KvLayer& kv() { return cache.layers[0]; }

  // Appends rows without turning them.
  Tensor Append(const std::vector<float>& qkv, const StepInputs& step) {
    ops.BeginStep(step.step());
    Tensor x = inputs.F32(qkv, {step.rows(), width()});
    ops.RopeAppendKv(x, shape, {}, no_turn, kv(), step.step());
    return x;
  }
  // The same; returns the attention of all rows.
  Tensor Run(const std::vector<float>& qkv, const Weight& sinks,
             std::vector<StepInputs::Sequence> sequences) {
    const StepInputs step(std::move(sequences));
    const Tensor x = Append(qkv, step);
    return ops.PagedAttention(x, shape, sinks, kv(), step.step());
  }
  // Rows with q = 0, k = 0 and v = 1: every key has the same score.
  std::vector<float> FlatRows(int64_t rows) const {
    std::vector<float> row(width(), 0.0f);
    std::fill(row.end() - shape.kv_heads * shape.head_dim, row.end(), 1.0f);
    std::vector<float> all;
    for (int64_t r = 0; r < rows; ++r) all.insert(all.end(), row.begin(), row.end());
    return all;
  }

  OpSet& ops;
  AttentionShape shape;
  Rope no_turn;
  KvLayout layout;
  Inputs inputs;
  KvCache cache;
};

std::vector<int32_t> PageRange(int32_t first, int64_t count) {
  std::vector<int32_t> pages(count);
  std::iota(pages.begin(), pages.end(), first);
  return pages;
}

TEST(Case066, TheSinkIsThatOfTheHeadOnEveryPath) {
  for (OpSetCase& set : AllOpSets()) {
    SCOPED_TRACE(set.name);
    const AttentionShape shape{8, 2, 64};
    for (int64_t sequences : {1, 3}) {
      for (int64_t query : {1, 5}) {
        // How many keys are there when the queries come; 600 are two splits of a device.
        for (int64_t keys_before : {3, 600}) {
          std::vector<float> sinks;
          for (int h = 0; h < 8; ++h) {
            sinks.push_back(static_cast<float>(keys_before > 100 ? h + 2 : h - 2));
          }
          AttentionRig rig(*set.ops, shape, 0, 3 * 11);
          std::vector<StepInputs::Sequence> before, now;
          int64_t rows = 0;
          for (int64_t s = 0; s < sequences; ++s) {
            const int64_t start = keys_before + 11 * s;
            before.push_back({0, start, PageRange(static_cast<int32_t>(11 * s), 11)});
            now.push_back({start, query, before.back().pages});
            rows += start;
          }
          const Weight sink = rig.inputs.Vector(sinks, {8});
          rig.Append(rig.FlatRows(rows), StepInputs(before));
          const Tensor out = rig.Run(rig.FlatRows(sequences * query), sink, now);
          for (int64_t s = 0; s < sequences; ++s) {
            for (int64_t r = 0; r < query; ++r) {
              for (int64_t h = 0; h < 8; ++h) {
                const auto keys = static_cast<double>(keys_before + 11 * s + r + 1);
                const double expected = keys / (keys + std::exp(sinks[h]));
                const float* o = out.data<float>() + ((s * query + r) * 8 + h) * 64;
                for (int64_t d : {0, 63}) EXPECT_NEAR(o[d], expected, set.Within(5e-5, expected));
              }
            }
          }
        }
      }
    }
  }
}

TEST(Case067, TheSinkCountsOnceWhateverPagesTheKeysAreIn) {
  for (OpSetCase& set : AllOpSets()) {
    SCOPED_TRACE(set.name);
    struct Point {
      int64_t keys;
      float sink, expected;
    };
    for (const Point& p : {Point{1, 0, 0.5f}, Point{4, 2, 0.351214f}, Point{128, 5, 0.463075f}}) {
      // The window holds p.keys of 1000 keys, and lies in one page, across borders, at a border.
      for (int64_t length : {p.keys, int64_t{128}, int64_t{129}, int64_t{191}, int64_t{1000}}) {
        if (length < p.keys) continue;
        AttentionRig rig(*set.ops, {2, 1, 64}, p.keys, 16);
        const Weight sink = rig.inputs.Vector({p.sink, p.sink}, {2});
        const Tensor out = rig.Run(rig.FlatRows(length), sink, {{0, length, PageRange(0, 16)}});
        const double bound = set.Within(1e-6, p.expected);
        EXPECT_NEAR(out.data<float>()[(length - 1) * 128], p.expected, bound) << length;
        EXPECT_NEAR(out.data<float>()[length * 128 - 1], p.expected, bound) << length;
      }
    }
  }
}

// Splits of 512 keys: 1, 2, 7 and 20 of them, of which a window of 128 leaves all but the last one
// or two empty; by a row alone and by several, which other kernels may serve.
TEST(Case067, TheNumberOfSplitsChangesNothing) {
  for (OpSetCase& set : AllOpSets()) {
    SCOPED_TRACE(set.name);
    for (int64_t window : {0, 128}) {
      for (int64_t length : {512, 513, 640, 1000, 3500, 10'000}) {
        for (int64_t rows : {1, 7}) {
          SCOPED_TRACE(StrCat("window ", window, ", ", length, " keys, ", rows, " rows"));
          const int64_t pages = (length + kPage - 1) / kPage;
          AttentionRig rig(*set.ops, {2, 1, 64}, window, pages);
          const float logit = 5;
          const Weight sink = rig.inputs.Vector({logit, logit}, {2});
          const std::vector<int32_t> table = PageRange(0, pages);
          rig.Append(rig.FlatRows(length - rows), StepInputs({{0, length - rows, table}}));
          const Tensor out = rig.Run(rig.FlatRows(rows), sink, {{length - rows, rows, table}});
          for (int64_t row = 0; row < rows; ++row) {
            const int64_t seen = length - rows + row + 1;
            const auto keys = static_cast<double>(window == 0 ? seen : std::min(window, seen));
            const double expected = keys / (keys + std::exp(logit));
            const double bound = set.Within(1e-3, expected);  // sums of 10,000 in f32
            EXPECT_NEAR(out.data<float>()[row * 128], expected, bound);
            EXPECT_NEAR(out.data<float>()[row * 128 + 127], expected, bound);
          }
        }
      }
    }
  }
}

TEST(Case068, PagesOutsideTheWindowAreNeverRead) {
  for (OpSetCase& set : AllOpSets()) {
    SCOPED_TRACE(set.name);
    for (int64_t length : {129, 200, 4097}) {
      SCOPED_TRACE(length);
      const AttentionShape shape{4, 2, 64};
      const int64_t pages = (length + kPage - 1) / kPage + 1;
      // The same rows twice: in a clean cache, and in one full of NaN whose old pages are gone.
      std::vector<std::vector<float>> results;
      for (bool is_dirty : {false, true}) {
        AttentionRig rig(*set.ops, shape, 128, pages);
        Inputs same(7);
        const std::vector<float> rows = same.Values(length * rig.width());
        const Weight sinks = same.RandomVector({4});
        if (is_dirty) {
          for (int64_t page = 0; page < pages; ++page) {
            FillPage(*set.ops, rig.layout, rig.cache, 0, page, std::nanf(""));
          }
        }
        std::vector<int32_t> table = PageRange(1, pages - 1);
        // In the dirty one, only what the last row may see is ever written.
        const int64_t first = is_dirty ? std::max<int64_t>(0, length - 128) : 0;
        for (int64_t p = 0; p < first / kPage; ++p) table[p] = -1;
        const auto part = [&](int64_t from, int64_t to) {
          return std::vector<float>(rows.begin() + from * rig.width(),
                                    rows.begin() + to * rig.width());
        };
        // Appended without attention: these rows would see keys that are not there. Their pages
        // must exist for the op's own check, so with a window of one.
        rig.kv().window = 1;
        rig.Append(part(first, length - 1), StepInputs({{first, length - 1 - first, table}}));
        rig.kv().window = 128;
        results.push_back(
            ToVector(rig.Run(part(length - 1, length), sinks, {{length - 1, 1, table}})));
      }
      for (float value : results[0]) ASSERT_TRUE(std::isfinite(value));
      ExpectSameBits(results[1].data(), results[0].data(), static_cast<int64_t>(results[0].size()));
    }
  }
}

TEST(Case070, AWindowOf128HasTheQueryAnd127KeysBefore) {
  for (OpSetCase& set : AllOpSets()) {
    SCOPED_TRACE(set.name);
    constexpr int64_t kLength = 300, kDim = 128;
    AttentionRig rig(*set.ops, {1, 1, kDim}, 128, 5);
    const std::vector<int32_t> table = PageRange(0, 5);
    // Value j is one at dimension j - from: the outputs show the weights of kDim keys at a time.
    for (int64_t from = 0; from < kLength; from += kDim) {
      std::vector<float> rows(kLength * rig.width(), 0.0f);
      for (int64_t j = from; j < std::min(kLength, from + kDim); ++j) {
        rows[j * rig.width() + 2 * kDim + j - from] = 1.0f;
      }
      const auto check = [&](const Tensor& out, int64_t position, int64_t row) {
        const int64_t first = std::max<int64_t>(0, position - 127);
        const float weight = 1.0f / static_cast<float>(position - first + 1);
        for (int64_t j = from; j < std::min(kLength, from + kDim); ++j) {
          const float expected = j >= first && j <= position ? weight : 0.0f;
          ASSERT_NEAR(out.data<float>()[row * kDim + j - from], expected,
                      set.Within(1e-7, expected))
              << "query " << position << " key " << j;
        }
      };
      const Tensor out = rig.Run(rows, {}, {{0, kLength, table}});
      for (int64_t position : {0, 1, 126, 127, 128, 129, 190, 191, 192, 255, 256, 299}) {
        check(out, position, position);
        if (HasFatalFailure()) return;
      }
      // Again as a row of its own.
      for (int64_t position : {127, 128, 299}) {
        const std::vector<float> row(rows.begin() + position * rig.width(),
                                     rows.begin() + (position + 1) * rig.width());
        check(rig.Run(row, {}, {{position, 1, table}}), position, 0);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// A sequence whose pages of every group move to another cache, and there to other pages, goes on
// as if it had stayed.
TEST(Case075, PagesOfAllGroupsMoveAndTheSequenceGoesOn) {
  const AttentionShape shape{4, 2, 64};
  constexpr int64_t kLength = 300;
  const KvLayout layout{
      .groups = {{.window = 0, .layers = {0, 2}}, {.window = 128, .layers = {1, 3}}},
      .kv_heads = shape.kv_heads,
      .head_dim = shape.head_dim};
  const Rope no_turn{std::vector<float>(32, 0.0f), 1.0f};
  for (OpSetCase& set : AllOpSets()) {
    SCOPED_TRACE(set.name);
    Inputs in;
    const Weight sinks = in.RandomVector({4});
    const int64_t width = (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
    // Each group has a table of its own.
    const std::vector<int32_t> full = {4, 2, 0, 1, 3, 5}, window = {5, 4, 3, 2, 1, 0};
    std::vector<std::vector<float>> rows;
    for (int layer = 0; layer < 4; ++layer) rows.push_back(in.Values((kLength + 1) * width));
    const auto run = [&](KvCache& cache, int64_t start, int64_t count,
                         const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
      std::vector<int32_t> positions(count);
      std::iota(positions.begin(), positions.end(), static_cast<int32_t>(start));
      const std::vector<int32_t> tokens(count);
      const StepSeq seq{.first_row = 0, .rows = count, .start = start, .pages = {a, b}};
      const Step step{tokens, positions, {&seq, 1}, {}};
      set.ops->BeginStep(step);
      std::vector<float> all;
      for (size_t layer = 0; layer < 4; ++layer) {
        Tensor x = in.F32(
            {rows[layer].begin() + start * width, rows[layer].begin() + (start + count) * width},
            {count, width});
        set.ops->RopeAppendKv(x, shape, {}, no_turn, cache.layers[layer], step);
        const std::vector<float> out =
            ToVector(set.ops->PagedAttention(x, shape, sinks, cache.layers[layer], step));
        all.insert(all.end(), out.begin(), out.end());
      }
      return all;
    };
    KvCache stays = set.ops->AllocateKv(layout, {6, 6}).value();
    run(stays, 0, kLength, full, window);
    const std::vector<float> expected = run(stays, kLength, 1, full, window);

    KvCache moves = set.ops->AllocateKv(layout, {6, 6}).value();
    KvCache host = set.ops->AllocateHostKv(layout, {6, 6}).value();
    run(moves, 0, kLength, full, window);
    PageCopies out, back;
    const std::vector<int32_t> new_full = {1, 3, 5, 0, 2, 4}, new_window = {-1, -1, 4, 0, 2, -1};
    for (size_t p = 0; p < 5; ++p) {
      out.to_host.push_back({0, full[p], static_cast<int32_t>(p)});
      back.to_device.push_back({0, static_cast<int32_t>(p), new_full[p]});
      if (new_window[p] < 0) continue;  // out of the window: stays behind
      out.to_host.push_back({1, window[p], static_cast<int32_t>(p)});
      back.to_device.push_back({1, static_cast<int32_t>(p), new_window[p]});
    }
    set.ops->CopyPages(moves, host, out);
    KvCache other = set.ops->AllocateKv(layout, {6, 6}).value();
    for (int group : {0, 1}) {
      for (int64_t page = 0; page < 6; ++page) {
        FillPage(*set.ops, layout, other, group, page, std::nanf(""));
        FillPage(*set.ops, layout, moves, group, page, std::nanf(""));
      }
    }
    set.ops->CopyPages(other, host, back);
    const std::vector<float> moved = run(other, kLength, 1, new_full, new_window);
    ExpectSameBits(moved.data(), expected.data(), std::ssize(expected));
  }
}

TEST(Case092, ACacheBeyond32BitElementsIsAddressed) {
  for (OpSetCase& set : AllOpSets()) {
    SCOPED_TRACE(set.name);
    // 2^31 elements lie before the last page; the system gives memory only to what is written.
    const int64_t pages = (int64_t{1} << 31) / (kPage * 64) + 3;
    const KvLayout layout{.groups = {{.window = 0, .layers = {0}}}, .kv_heads = 1, .head_dim = 64};
    AttentionRig small(*set.ops, {2, 1, 64}, 0, 1);
    Result<KvCache> cache = set.ops->AllocateKv(layout, {pages});
    if (!cache.ok()) GTEST_SKIP() << cache.status().message();
    const std::vector<float> rows = small.inputs.Values(2 * small.width());
    const Tensor expected = small.Run(rows, {}, {{0, 2, {0}}});
    const std::vector<float> near = ToVector(expected);
    small.cache = std::move(*cache);
    const Tensor far = small.Run(rows, {}, {{0, 2, {static_cast<int32_t>(pages - 1)}}});
    ExpectSameBits(far.data<float>(), near.data(), far.elements());
  }
}

TEST(SpecA5, CosinesAndSinesOfYarn) {
  struct Point {
    int64_t position, dimension;
    double c, s;
    double bound;  // f32 angles lose digits at large positions
  };
  const Point points[] = {
      {1, 0, 0.727556816, 1.133102605, 1e-6},        {1, 8, 1.344835545, 0.068394373, 1e-6},
      {1, 12, 1.346542504, 0.009149843, 1e-6},       {127, 0, 0.312888630, 1.309717962, 1e-6},
      {127, 9, -0.852738859, -1.042159715, 1e-6},    {127, 17, 1.346391988, 0.022114424, 1e-6},
      {4096, 8, 0.951542349, 0.952799870, 3e-5},     {4096, 12, -1.217061551, 0.576213167, 3e-6},
      {4096, 18, 1.330030140, 0.210428757, 1e-6},    {4096, 31, 1.346572558, 0.001667637, 1e-6},
      {100000, 9, -1.027630376, -0.870193222, 1e-3}, {100000, 17, 1.257626136, 0.481286750, 1e-5},
      {100000, 31, 1.345958144, 0.040707604, 1e-6}};
  const double inv_freq[] = {1.0,
                             0,
                             0,
                             0,
                             0,
                             0,
                             0,
                             0,
                             0.0508132748,
                             0.0317056962,
                             0,
                             0,
                             0.00679495949,
                             0,
                             0,
                             0,
                             0,
                             0.000129318701,
                             3.83088124e-05};
  Rope rope{.inv_freq = std::vector<float>(32, 0.0f), .scale = 1.3465735902799727f};
  for (size_t i = 0; i < std::size(inv_freq); ++i)
    rope.inv_freq[i] = static_cast<float>(inv_freq[i]);
  rope.inv_freq[31] = 3.02351143e-07f;
  for (OpSetCase& set : AllOpSets()) {
    SCOPED_TRACE(set.name);
    const AttentionShape shape{1, 1, 64};
    AttentionRig rig(*set.ops, shape, 1, 1);
    for (const Point& p : points) {
      // A query of one at dimension i becomes cos at i and sin at i + 32.
      std::vector<float> row(rig.width(), 0.0f);
      row[p.dimension] = 1.0f;
      row[64 + 32 + p.dimension] = 1.0f;  // the key: one at i + 32 becomes -sin and cos
      const StepInputs step({{p.position, 1, std::vector<int32_t>(p.position / kPage + 1, 0)}});
      set.ops->BeginStep(step.step());
      Tensor x = rig.inputs.F32(row, {1, rig.width()});
      set.ops->RopeAppendKv(x, shape, {}, rope, rig.kv(), step.step());
      const double c = set.Within(p.bound, p.c), s = set.Within(p.bound, p.s);
      EXPECT_NEAR(x.data<float>()[p.dimension], p.c, c) << p.position << " " << p.dimension;
      EXPECT_NEAR(x.data<float>()[32 + p.dimension], p.s, s);
      EXPECT_NEAR(x.data<float>()[64 + p.dimension], -p.s, s);
      EXPECT_NEAR(x.data<float>()[64 + 32 + p.dimension], p.c, c);
    }
  }
}

// By hand, in double: x / sqrt(mean(x^2) + eps) * weight of each head, then the rotation.
TEST(HeadNormsTest, EveryHeadOfQAndKIsNormedBeforeItTurns) {
  const AttentionShape shape{4, 2, 64};
  Rope rope{.inv_freq = std::vector<float>(32), .scale = 1.0f};
  for (size_t i = 0; i < 32; ++i) rope.inv_freq[i] = 1.0f / static_cast<float>(1 + i);
  for (OpSetCase& set : AllOpSets()) {
    SCOPED_TRACE(set.name);
    AttentionRig rig(*set.ops, shape, 0, 1);
    std::vector<float> row = rig.inputs.Values(rig.width());
    for (float& value : row) value = ToFloat(ToBf16(value));
    const HeadNorms norms{rig.inputs.RandomVector({64}), rig.inputs.RandomVector({64}), 0.25f};
    const StepInputs step({{5, 1, std::vector<int32_t>{0}}});
    set.ops->BeginStep(step.step());
    Tensor x = rig.inputs.F32(row, {1, rig.width()});
    set.ops->RopeAppendKv(x, shape, norms, rope, rig.kv(), step.step());
    for (int64_t head = 0; head < 8; ++head) {
      const float* in = row.data() + head * 64;
      const float* out = x.data<float>() + head * 64;
      const Bf16* weight = (head < 4 ? norms.q : norms.k).data.data<Bf16>();
      double squares = 0;
      for (int64_t i = 0; i < 64; ++i) squares += double{in[i]} * in[i];
      for (int64_t i = 0; i < 32; ++i) {
        if (head >= 6) {  // v stays as it is
          ASSERT_EQ(out[i], in[i]);
          continue;
        }
        const double scale = 1 / std::sqrt(squares / 64 + 0.25);
        const double a = in[i] * scale * ToFloat(weight[i]);
        const double b = in[i + 32] * scale * ToFloat(weight[i + 32]);
        const double angle = 5.0 / static_cast<double>(1 + i);
        const double low = a * std::cos(angle) - b * std::sin(angle);
        const double high = b * std::cos(angle) + a * std::sin(angle);
        EXPECT_NEAR(out[i], low, set.Within(4e-6, low)) << head << " " << i;
        EXPECT_NEAR(out[i + 32], high, set.Within(4e-6, high));
      }
    }
  }
}

TEST(SpecA8, SoftmaxWithASink) {
  for (OpSetCase& set : AllOpSets()) {
    SCOPED_TRACE(set.name);
    AttentionRig rig(*set.ops, {1, 1, 64}, 0, 1);
    // Keys give the scores 1, 2 and -0.5 to the last query; value j is one at dimension j.
    const float scores[] = {1.0f, 2.0f, -0.5f};
    std::vector<float> rows(3 * rig.width(), 0.0f);
    for (int64_t j = 0; j < 3; ++j) {
      rows[j * rig.width()] = 8.0f;  // q; the scale is 1/8
      rows[j * rig.width() + 64] = scores[j];
      rows[j * rig.width() + 128 + j] = 1.0f;
    }
    const Tensor out =
        rig.Run(rows, rig.inputs.Vector({0.25f}, {1}), {{0, 3, std::vector<int32_t>{0}}});
    const float* o = out.data<float>() + 2 * 64;
    EXPECT_NEAR(o[0], 0.226563247, set.Within(1e-7, 0.23));
    EXPECT_NEAR(o[1], 0.615862759, set.Within(1e-7, 0.62));
    EXPECT_NEAR(o[2], 0.050553094, set.Within(1e-7, 0.05));
    EXPECT_NEAR(o[0] + o[1] + o[2], 0.892979100, set.Within(2e-7, 0.9));
  }
}

}  // namespace
}  // namespace rose
