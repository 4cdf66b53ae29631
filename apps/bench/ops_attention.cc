#include "bench/ops_attention.h"

#include <algorithm>

#include "bench/ops_cache.h"
#include "bench/ops_check.h"

namespace rose {
namespace {

constexpr int64_t kMostUsers = 256;  // that decode in one step
constexpr int64_t kFewestRows = 16;  // of a chunk of a prompt
constexpr int64_t kPage = KvLayout::kPageSize;
constexpr float kNormEps = 1e-6f;

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
