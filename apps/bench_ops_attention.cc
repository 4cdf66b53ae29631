#include "bench_ops_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "bench_ops_check.h"
#include "ops/cpu/cpu_ops.h"

namespace rose {
namespace {

constexpr int64_t kMostUsers = 256;  // that decode in one step
constexpr int64_t kFewestRows = 16;  // of a chunk of a prompt
constexpr int64_t kFillRows = 4096;  // of a step that fills the cache
constexpr double kPastCache = 2e8;   // bytes that push all else out of L2
constexpr int64_t kMostCopies = 1024;
constexpr int64_t kPage = KvLayout::kPageSize;
constexpr float kNormEps = 1e-6f;

// Keys or values of a page in f32, as the reference has them: [kv_heads, kPageSize, head_dim].
std::vector<float> HostPage(const OpInputs& in, const Tensor& pages, int64_t page, bool is_keys) {
  std::vector<float> values = HostRows(in.ops(), pages, {page}).values();
  if (!is_keys || in.is_on_gpu()) return values;
  // cpu-fast keeps keys transposed.
  const int64_t dim = pages.dim(3);
  std::vector<float> keys(values.size());
  for (int64_t head = 0; head < pages.dim(1); ++head) {
    for (int64_t slot = 0; slot < kPage; ++slot) {
      for (int64_t d = 0; d < dim; ++d)
        keys[(head * kPage + slot) * dim + d] = values[(head * dim + d) * kPage + slot];
    }
  }
  return keys;
}

// Sequences of one step, and copies of a layer's cache with their keys in them.
class CacheInputs {
 public:
  // `users` sequences with `rows` new rows each behind `context` keys.
  static Result<std::shared_ptr<CacheInputs>> Create(OpInputs& in, int64_t users, int64_t rows,
                                                     int64_t context, int64_t window);

  Step step() const { return {tokens_, positions_, seqs_, {}}; }
  int64_t rows() const { return std::ssize(positions_); }
  int64_t copies() const { return std::ssize(cache_.layers); }
  KvLayer& layer(int64_t copy) { return cache_.layers[copy % copies()]; }
  const AttentionShape& shape() const { return shape_; }
  const Rope& rope() const { return rope_; }

  // Keys that rows see: summed over rows; and those that at least one row of each sequence sees.
  double keys_of_rows() const;
  double keys_read() const;

  // The reference's attention of `rows`, whose q is in `qkv` [rows, width], over copy 0.
  std::vector<float> Expected(OpInputs& in, const std::vector<int64_t>& rows, const Tensor& qkv,
                              const Weight& sinks);
  // Where keys and values of a row stand in copy 0.
  int64_t PageOf(int64_t row) const;

 private:
  void Fill(OpInputs& in, const Tensor& qkv);
  const StepSeq& SeqOf(int64_t row) const;
  // Pages of a sequence from the one of `first` on, in f32, and their table.
  KvCache HostCache(OpInputs& in, CpuOps& reference, const StepSeq& seq, int64_t first,
                    std::vector<int32_t>& table);

  AttentionShape shape_;
  int64_t window_ = 0;
  Rope rope_;
  std::vector<int32_t> tokens_, positions_;
  std::vector<std::vector<int32_t>> tables_;
  std::vector<StepSeq> seqs_;
  KvCache cache_;
};

AttentionShape ShapeOf(const ModelInfo& info) {
  return {info.heads, info.kv.kv_heads, info.kv.head_dim};
}

int64_t WidthOf(const AttentionShape& shape) {
  return (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
}

Result<std::shared_ptr<CacheInputs>> CacheInputs::Create(OpInputs& in, int64_t users, int64_t rows,
                                                         int64_t context, int64_t window) {
  auto inputs = std::make_shared<CacheInputs>();
  inputs->shape_ = ShapeOf(in.info());
  inputs->window_ = window;
  // A scale of 1: rows are turned again and again, and must not grow.
  for (int64_t i = 0; i < inputs->shape_.head_dim / 2; ++i) {
    inputs->rope_.inv_freq.push_back(std::pow(
        150000.0f, -static_cast<float>(i) / static_cast<float>(inputs->shape_.head_dim / 2)));
  }
  // Pages of a sequence are not in order, as in a server that has run for a while.
  const int64_t pages_each = (context + rows + kPage - 1) / kPage;
  std::vector<int32_t> pages(users * pages_each);
  std::iota(pages.begin(), pages.end(), 0);
  std::shuffle(pages.begin(), pages.end(), std::mt19937(7));
  for (int64_t u = 0; u < users; ++u) {
    inputs->tables_.emplace_back(pages.begin() + u * pages_each,
                                 pages.begin() + (u + 1) * pages_each);
  }
  for (int64_t u = 0; u < users; ++u) {
    inputs->seqs_.push_back(
        {.first_row = u * rows, .rows = rows, .start = context, .pages = {inputs->tables_[u]}});
    for (int64_t i = 0; i < rows; ++i)
      inputs->positions_.push_back(static_cast<int32_t>(context + i));
  }
  inputs->tokens_.assign(users * rows, 0);
  const auto key_bytes = static_cast<double>(2 * inputs->shape_.kv_heads * inputs->shape_.head_dim *
                                             ElementBytes(in.ops().kv_dtype()));
  const auto copies =
      in.is_on_gpu() ? std::min(kMostCopies, static_cast<int64_t>(std::ceil(
                                                 kPastCache / (key_bytes * inputs->keys_read()))))
                     : 1;
  KvLayout layout{.groups = {{.window = window, .layers = std::vector<int>(copies)}},
                  .kv_heads = inputs->shape_.kv_heads,
                  .head_dim = inputs->shape_.head_dim};
  std::iota(layout.groups[0].layers.begin(), layout.groups[0].layers.end(), 0);
  ROSE_ASSIGN_OR_RETURN(inputs->cache_, in.ops().AllocateKv(layout, {std::ssize(pages)}));
  ROSE_ASSIGN_OR_RETURN(const Tensor qkv,
                        in.Activations("fill", kFillRows, WidthOf(inputs->shape_)));
  inputs->Fill(in, qkv);
  return inputs;
}

// Writes keys and values of all positions: of a window, those that rows see.
void CacheInputs::Fill(OpInputs& in, const Tensor& qkv) {
  const int64_t width = qkv.dim(1), chunk = kFillRows / 2;
  const std::vector<int32_t> tokens(chunk, 0);
  int64_t turn = 0;
  for (const StepSeq& seq : seqs_) {
    const int64_t end = seq.start + seq.rows;
    const int64_t first =
        window_ > 0 ? std::max<int64_t>(0, (seq.start - window_) / kPage * kPage) : 0;
    for (int64_t at = first; at < end; at += chunk) {
      const int64_t rows = std::min(chunk, end - at);
      std::vector<int32_t> positions(rows);
      std::iota(positions.begin(), positions.end(), static_cast<int32_t>(at));
      const StepSeq part{.first_row = 0, .rows = rows, .start = at, .pages = seq.pages};
      const Step step{std::span(tokens).first(rows), positions, {&part, 1}, {}};
      in.ops().BeginStep(step);
      for (int64_t c = 0; c < copies(); ++c) {
        // Values are not turned: different rows for different places.
        const int64_t from = (turn++ * 61) % (kFillRows - rows + 1);
        auto* const data =
            static_cast<std::byte*>(qkv.raw()) + from * width * ElementBytes(qkv.dtype());
        Tensor part_qkv(data, qkv.dtype(), {rows, width});
        in.ops().RopeAppendKv(part_qkv, shape_, {}, rope_, layer(c), step);
      }
    }
  }
}

double CacheInputs::keys_of_rows() const {
  double keys = 0;
  for (int32_t position : positions_) {
    const int64_t all = position + 1;
    keys += static_cast<double>(window_ > 0 ? std::min(all, window_) : all);
  }
  return keys;
}

double CacheInputs::keys_read() const {
  double keys = 0;
  for (const StepSeq& seq : seqs_) {
    const int64_t all = seq.start + seq.rows;
    keys += static_cast<double>(window_ > 0 ? std::min(all, window_ + seq.rows - 1) : all);
  }
  return keys;
}

const StepSeq& CacheInputs::SeqOf(int64_t row) const {
  return seqs_[row / seqs_.front().rows];
}

int64_t CacheInputs::PageOf(int64_t row) const {
  return SeqOf(row).pages[0][positions_[row] / kPage];
}

KvCache CacheInputs::HostCache(OpInputs& in, CpuOps& reference, const StepSeq& seq, int64_t first,
                               std::vector<int32_t>& table) {
  const int64_t end = seq.start + seq.rows;
  const int64_t first_page = first / kPage, pages = (end + kPage - 1) / kPage - first_page;
  table.assign(first_page + pages, -1);
  const KvLayout layout{.groups = {{.window = window_, .layers = {0}}},
                        .kv_heads = shape_.kv_heads,
                        .head_dim = shape_.head_dim};
  KvCache host = reference.AllocateKv(layout, {pages}).value();
  for (int64_t p = 0; p < pages; ++p) {
    table[first_page + p] = static_cast<int32_t>(p);
    const int64_t page = seq.pages[0][first_page + p];
    // Lets memory of the host that held earlier pages go.
    if (p % 64 == 63) in.ops().BeginStep({});
    for (const bool is_keys : {true, false}) {
      const Tensor& from = is_keys ? layer(0).keys : layer(0).values;
      const Tensor& to = is_keys ? host.layers[0].keys : host.layers[0].values;
      const std::vector<float> values = HostPage(in, from, page, is_keys);
      std::copy(values.begin(), values.end(), to.data<float>() + p * std::ssize(values));
    }
  }
  return host;
}

std::vector<float> CacheInputs::Expected(OpInputs& in, const std::vector<int64_t>& rows,
                                         const Tensor& qkv, const Weight& sinks) {
  const int64_t width = qkv.dim(1), out_width = shape_.heads * shape_.head_dim;
  std::vector<float> expected;
  const StepSeq* of = nullptr;
  CpuOps reference;
  KvCache cache;
  std::vector<int32_t> table;
  for (size_t r = 0; r < rows.size(); ++r) {
    const StepSeq& seq = SeqOf(rows[r]);
    const int32_t position = positions_[rows[r]];
    if (of != &seq) {
      // Rows ascend: the first of a sequence sees furthest back.
      const int64_t first = window_ > 0 ? std::max<int64_t>(0, position - window_ + 1) : 0;
      cache = HostCache(in, reference, seq, first, table);
      of = &seq;
    }
    const int32_t token = 0;
    const StepSeq one{.first_row = 0, .rows = 1, .start = position, .pages = {table}};
    const Tensor q(qkv.data<float>() + static_cast<int64_t>(r) * width, DType::kF32, {1, width});
    const Step step{{&token, 1}, {&position, 1}, {&one, 1}, {}};
    reference.BeginStep(step);
    const Tensor out = reference.PagedAttention(q, shape_, sinks, cache.layers[0], step);
    expected.insert(expected.end(), out.data<float>(), out.data<float>() + out_width);
  }
  return expected;
}

Result<OpCase> AttentionCase(OpInputs& in, const std::string& name,
                             const std::shared_ptr<CacheInputs>& cache, int64_t tokens,
                             int64_t context) {
  const WeightCopies sinks = in.weights().Of("sinks");
  const AttentionShape shape = cache->shape();
  ROSE_ASSIGN_OR_RETURN(const Tensor qkv, in.Activations("attention", tokens, WidthOf(shape)));
  OpCase op{.op = name, .tokens = tokens, .context = context};
  const auto element = static_cast<double>(ElementBytes(in.ops().kv_dtype()));
  const auto q_width = static_cast<double>(shape.heads * shape.head_dim);
  // q is read and as much is written.
  op.work.bytes =
      cache->keys_read() * 2 * element * static_cast<double>(shape.kv_heads * shape.head_dim) +
      2 * static_cast<double>(tokens) * q_width * static_cast<double>(ElementBytes(qkv.dtype()));
  op.work.flops = 4 * cache->keys_of_rows() * q_width;
  auto last = std::make_shared<Tensor>();
  op.begin = [&in, cache] { in.ops().BeginStep(cache->step()); };
  op.calls = {.count = in.CallsFor(cache->copies()),
              .run = [&in, qkv, shape, sinks, cache, last](int64_t copy) {
                in.NextCall(cache->step());
                *last = in.ops().PagedAttention(qkv, shape, sinks.at(0), cache->layer(copy),
                                                cache->step());
              }};
  op.check = [&in, qkv, sinks, cache, last, tokens]() -> Result<OpChecked> {
    const std::vector<int64_t> rows = SampleRows(tokens);
    const HostRows out(in.ops(), *last, rows);
    HostRows sample(in.ops(), qkv, rows);
    ROSE_ASSIGN_OR_RETURN(const Weight host_sinks, in.weights().Host(sinks));
    std::vector<float> expected = cache->Expected(in, rows, sample.tensor(), host_sinks);
    const Tensor shaped(expected.data(), DType::kF32, {std::ssize(rows), last->dim(1)});
    return OpChecked{std::ssize(rows), WorstOneMinusCosine(out.values(), shaped), in.bound(false)};
  };
  return op;
}

struct TurnedRow {
  Tensor before, after;  // F32 [1, width]
};

std::vector<float> ToVector(const float* values, int64_t n) {
  return {values, values + n};
}

// How far a row, and its key and value in copy 0 of the cache, are from the reference's. Changes
// `row.before`.
double AppendedOff(OpInputs& in, CacheInputs& cache, const HeadNorms& norms, int64_t row_number,
                   TurnedRow row) {
  const AttentionShape shape = cache.shape();
  const int32_t position = cache.step().positions[row_number], token = 0;
  const std::vector<int32_t> table(position / kPage + 1, 0);
  const StepSeq one{.first_row = 0, .rows = 1, .start = position, .pages = {table}};
  CpuOps reference;
  KvCache host = reference
                     .AllocateKv({.groups = {{.window = 0, .layers = {0}}},
                                  .kv_heads = shape.kv_heads,
                                  .head_dim = shape.head_dim},
                                 {1})
                     .value();
  reference.RopeAppendKv(row.before, shape, norms, cache.rope(), host.layers[0],
                         {{&token, 1}, {&position, 1}, {&one, 1}, {}});
  double off =
      WorstOneMinusCosine(ToVector(row.after.data<float>(), row.after.elements()), row.before);
  for (const bool is_keys : {true, false}) {
    const Tensor& pages = is_keys ? cache.layer(0).keys : cache.layer(0).values;
    const Tensor& expected = is_keys ? host.layers[0].keys : host.layers[0].values;
    const std::vector<float> page = HostPage(in, pages, cache.PageOf(row_number), is_keys);
    for (int64_t head = 0; head < shape.kv_heads; ++head) {
      const int64_t at = (head * kPage + position % kPage) * shape.head_dim;
      const Tensor wanted(expected.data<float>() + at, DType::kF32, {1, shape.head_dim});
      off = std::max(off, WorstOneMinusCosine(ToVector(page.data() + at, shape.head_dim), wanted));
    }
  }
  return off;
}

Result<OpCase> AppendCase(OpInputs& in, int64_t tokens, int64_t context) {
  ROSE_ASSIGN_OR_RETURN(const std::shared_ptr<CacheInputs> cache,
                        CacheInputs::Create(in, /*users=*/1, tokens, context, /*window=*/0));
  const AttentionShape shape = cache->shape();
  const HeadNorms norms{in.weights().Of("q_norm").at(0), in.weights().Of("k_norm").at(0), kNormEps};
  ROSE_ASSIGN_OR_RETURN(const Tensor qkv, in.Activations("append", tokens, WidthOf(shape)));
  OpCase op{.op = "rope_append_kv", .tokens = tokens, .context = context};
  const auto element = static_cast<double>(ElementBytes(qkv.dtype()));
  const auto heads = static_cast<double>(2 * shape.heads + 5 * shape.kv_heads);
  // q and k are read and written, v is read, and both go to the cache.
  op.work.bytes =
      static_cast<double>(tokens) * element * heads * static_cast<double>(shape.head_dim);
  op.begin = [&in, cache] { in.ops().BeginStep(cache->step()); };
  const auto append = [&in, qkv, shape, norms, cache](int64_t copy) {
    Tensor rows = qkv;
    in.ops().RopeAppendKv(rows, shape, norms, cache->rope(), cache->layer(copy), cache->step());
  };
  op.calls = {.count = in.CallsFor(cache->copies()), .run = [&in, append, cache](int64_t copy) {
                in.NextCall(cache->step());
                append(copy);
              }};
  // Rows have been turned by every call: once more, between two looks at them.
  op.check = [&in, qkv, cache, append, tokens]() -> Result<OpChecked> {
    const std::vector<int64_t> rows = SampleRows(tokens);
    in.ops().BeginStep(cache->step());
    HostRows before(in.ops(), qkv, rows);
    append(0);
    HostRows after(in.ops(), qkv, rows);
    HeadNorms norms{.q = {}, .k = {}, .eps = kNormEps};
    ROSE_ASSIGN_OR_RETURN(norms.q, in.weights().Host(in.weights().Of("q_norm")));
    ROSE_ASSIGN_OR_RETURN(norms.k, in.weights().Host(in.weights().Of("k_norm")));
    OpChecked checked{.rows = std::ssize(rows), .bound = in.bound(false)};
    for (int64_t r = 0; r < checked.rows; ++r) {
      const double off = AppendedOff(in, *cache, norms, rows[r],
                                     {RowOf(before.tensor(), r), RowOf(after.tensor(), r)});
      checked.one_minus_cos = std::max(checked.one_minus_cos, off);
    }
    return checked;
  };
  return op;
}

}  // namespace

std::vector<PlannedCase> AttentionCases(OpInputs& in, int64_t tokens, int64_t context) {
  std::vector<PlannedCase> cases = {
      {"rope_append_kv", [&in, tokens, context] { return AppendCase(in, tokens, context); }}};
  for (const bool is_decode : {true, false}) {
    if (is_decode ? tokens > kMostUsers : tokens < kFewestRows) continue;
    for (const KvGroup& group : in.info().kv.groups) {
      const std::string name = StrCat("attention_", is_decode ? "decode" : "prefill",
                                      group.window > 0 ? "_sliding" : "_full");
      cases.push_back({name, [=, &in, window = group.window]() -> Result<OpCase> {
                         ROSE_ASSIGN_OR_RETURN(
                             const std::shared_ptr<CacheInputs> cache,
                             CacheInputs::Create(in, is_decode ? tokens : 1, is_decode ? 1 : tokens,
                                                 context, window));
                         return AttentionCase(in, name, cache, tokens, context);
                       }});
    }
  }
  return cases;
}

}  // namespace rose
