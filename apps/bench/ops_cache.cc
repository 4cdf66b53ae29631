#include "bench/ops_cache.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "bench/ops_check.h"

namespace rose {
namespace {

constexpr int64_t kFillRows = 4096;  // of a step that fills the cache
constexpr double kPastCache = 2e8;   // bytes that push all else out of L2
constexpr int64_t kMostCopies = 1024;
constexpr int64_t kPage = KvLayout::kPageSize;

AttentionShape ShapeOf(const ModelInfo& info) {
  return {info.heads, info.kv.kv_heads, info.kv.head_dim};
}

}  // namespace

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

}  // namespace rose
