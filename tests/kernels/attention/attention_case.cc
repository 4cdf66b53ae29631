#include "kernels/attention/attention_case.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "device/cuda_check.h"
#include "kernels/attention/attention.h"
#include "kernels/on_device.h"
#include "ops/cpu/cpu_ops.h"

namespace rose {
namespace {

constexpr int64_t kPage = KvLayout::kPageSize;
constexpr Bf16 kNan{0x7fc1};
constexpr Bf16 kGuard{0x7fa5};  // a NaN that no kernel writes
constexpr int64_t kGuards = 64;

enum Kind { kQuery, kKey, kValue, kSink };

// A number of about normal distribution, from all that names it.
Bf16 Number(Kind kind, int64_t text, int64_t position, int64_t head, int64_t dim, float spread) {
  uint64_t x = ((static_cast<uint64_t>(kind) * 31 + text) * 200003 + position) * 131 + head;
  x = x * 257 + dim + 0x9e3779b97f4a7c15u;
  float sum = 0;
  for (int i = 0; i < 3; ++i) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    sum += static_cast<float>(x >> 40) / (1 << 24) - 0.5f;
  }
  return ToBf16(sum * 2 * spread);
}

Bf16 SinkOf(const AttentionCase& c, int64_t head) {
  return ToBf16(ToFloat(Number(kSink, 0, 0, head, 0, 2)) + c.sink);
}

int64_t RowsOf(const std::vector<CaseSeq>& seqs) {
  int64_t rows = 0;
  for (const CaseSeq& seq : seqs) rows += seq.rows;
  return rows;
}

// A page table of each sequence, and which position's key each page begins with.
struct Pages {
  std::vector<std::vector<int32_t>> tables;
  int64_t count = 0;
};

Pages MakePages(const AttentionCase& c, const std::vector<CaseSeq>& seqs) {
  Pages pages;
  for (const CaseSeq& seq : seqs) {
    const int64_t end = seq.start + seq.rows;
    const int64_t first = c.window > 0 ? std::max<int64_t>(0, seq.start - c.window + 1) : 0;
    std::vector<int32_t> table((end + kPage - 1) / kPage, -1);
    for (int64_t p = first / kPage; p < std::ssize(table); ++p) table[p] = pages.count++;
    pages.tables.push_back(table);
  }
  std::vector<int32_t> order(pages.count);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(7));
  for (auto& table : pages.tables) {
    for (int32_t& page : table) page = page < 0 ? -1 : order[page];
  }
  return pages;
}

// Keys or values of positions [0, end) of a text: [end, kv_heads, head_dim].
std::vector<Bf16> FillText(const AttentionCase& c, Kind kind, int64_t text, int64_t end) {
  std::vector<Bf16> numbers(end * c.kv_heads * c.head_dim);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const int64_t row = i / c.head_dim;
    numbers[i] = Number(kind, text, row / c.kv_heads, row % c.kv_heads, i % c.head_dim,
                        kind == kKey ? c.spread : 1);
  }
  return numbers;
}

// Keys or values of all pages, NaN where nobody may read.
std::vector<Bf16> FillPages(const AttentionCase& c, const std::vector<CaseSeq>& seqs,
                            const Pages& pages, Kind kind) {
  std::vector<Bf16> cache(std::max<int64_t>(pages.count, 1) * c.kv_heads * kPage * c.head_dim,
                          kNan);
  std::map<int64_t, int64_t> ends;
  for (const CaseSeq& seq : seqs) ends[seq.text] = std::max(ends[seq.text], seq.start + seq.rows);
  std::map<int64_t, std::vector<Bf16>> texts;
  for (const auto& [text, end] : ends) texts[text] = FillText(c, kind, text, end);
  for (size_t s = 0; s < seqs.size(); ++s) {
    const CaseSeq& seq = seqs[s];
    const Bf16* text = texts[seq.text].data();
    const int64_t first = c.window > 0 ? std::max<int64_t>(0, seq.start - c.window + 1) : 0;
    for (int64_t at = first; at < seq.start + seq.rows; ++at) {
      for (int64_t head = 0; head < c.kv_heads; ++head) {
        const int64_t page = pages.tables[s][at / kPage];
        std::copy_n(text + (at * c.kv_heads + head) * c.head_dim, c.head_dim,
                    &cache[((page * c.kv_heads + head) * kPage + at % kPage) * c.head_dim]);
      }
    }
  }
  return cache;
}

std::vector<Bf16> FillQkv(const AttentionCase& c, const std::vector<CaseSeq>& seqs,
                          int64_t stride) {
  std::vector<Bf16> qkv(RowsOf(seqs) * stride, kNan);
  int64_t row = 0;
  for (const CaseSeq& seq : seqs) {
    for (int64_t at = seq.start; at < seq.start + seq.rows; ++at, ++row) {
      for (int64_t i = 0; i < c.queries(); ++i) {
        qkv[row * stride + i] =
            Number(kQuery, seq.text, at, i / c.head_dim, i % c.head_dim, c.spread);
      }
    }
  }
  return qkv;
}

// Large, and full of nonsense.
class Workspace {
 public:
  explicit Workspace(int64_t bytes) {
    CudaCheck(cudaMalloc(&data_, bytes), "allocating");
    CudaCheck(cudaMemset(data_, 0xff, bytes), "filling");
  }
  ~Workspace() { (void)cudaFree(data_); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

}  // namespace

std::vector<Bf16> OnGpu(const AttentionCase& c, const std::vector<CaseSeq>& seqs) {
  const int64_t rows = RowsOf(seqs), stride = c.queries() + 2 * c.kv_heads * c.head_dim + 8;
  const Pages pages = MakePages(c, seqs);
  std::vector<int32_t> tables{-1, -1, -1};  // the tables do not begin at 0
  std::vector<DeviceSeq> device_seqs;
  int64_t row = 0;
  bool is_decode = true;
  for (size_t s = 0; s < seqs.size(); ++s) {
    device_seqs.push_back({.first_row = static_cast<int32_t>(row),
                           .rows = static_cast<int32_t>(seqs[s].rows),
                           .start = static_cast<int32_t>(seqs[s].start),
                           .pages_at = {-1, static_cast<int32_t>(tables.size())}});
    tables.insert(tables.end(), pages.tables[s].begin(), pages.tables[s].end());
    row += seqs[s].rows;
    is_decode = is_decode && seqs[s].rows <= kDecodeRows;
  }
  std::vector<Bf16> sinks(c.heads);
  for (int64_t h = 0; h < c.heads; ++h) sinks[h] = SinkOf(c, h);

  const OnDevice<DeviceSeq> seqs_device(device_seqs);
  const OnDevice<int32_t> tables_device(tables);
  const OnDevice<Bf16> qkv(FillQkv(c, seqs, stride)), keys(FillPages(c, seqs, pages, kKey)),
      values(FillPages(c, seqs, pages, kValue)), sinks_device(sinks),
      out(std::vector<Bf16>(rows * c.queries() + 2 * kGuards, kGuard));
  AttentionParams params{.qkv = qkv.data(),
                         .keys = keys.data(),
                         .values = values.data(),
                         .sinks = c.has_sinks ? sinks_device.data() : nullptr,
                         .out = out.data() + kGuards,
                         .limits = {.rows = rows,
                                    .seqs = std::ssize(seqs),
                                    .heads = c.heads,
                                    .kv_heads = c.kv_heads,
                                    .head_dim = c.head_dim,
                                    .window = c.window},
                         .qkv_stride = stride,
                         .group = 1,
                         .is_decode = is_decode};
  params.step.seqs = seqs_device.data();
  params.step.pages = tables_device.data();
  params.step.rows = rows;
  params.step.seq_count = std::ssize(seqs);
  const Workspace workspace(AttentionWorkspaceBytes(params.limits));
  params.workspace = workspace.data();
  std::vector<Bf16> first;
  for (int run = 0; run < 2; ++run) {  // the second finds the workspace as the first left it
    LaunchPagedAttention(params, /*stream=*/nullptr);
    std::vector<Bf16> all = out.ToHost();
    for (int64_t i = 0; i < kGuards; ++i) {
      EXPECT_EQ(all[i].bits, kGuard.bits) << "before the output: " << i;
      EXPECT_EQ(all[all.size() - 1 - i].bits, kGuard.bits) << "behind the output: " << i;
    }
    std::vector<Bf16> inner(all.begin() + kGuards, all.end() - kGuards);
    if (run == 1) {
      EXPECT_TRUE(inner == first) << "two runs differ";
    }
    first = std::move(inner);
  }
  return first;
}

std::vector<float> OnCpu(const AttentionCase& c, const std::vector<CaseSeq>& seqs) {
  const Pages pages = MakePages(c, seqs);
  const auto widen = [](const std::vector<Bf16>& from) {
    std::vector<float> to(from.size());
    std::transform(from.begin(), from.end(), to.begin(), [](Bf16 x) { return ToFloat(x); });
    return to;
  };
  std::vector<float> keys = widen(FillPages(c, seqs, pages, kKey));
  std::vector<float> values = widen(FillPages(c, seqs, pages, kValue));
  const int64_t stride = c.queries() + 2 * c.kv_heads * c.head_dim;
  std::vector<float> qkv = widen(FillQkv(c, seqs, stride));
  std::vector<Bf16> sinks(c.heads);
  for (int64_t h = 0; h < c.heads; ++h) sinks[h] = SinkOf(c, h);

  Step step;
  std::vector<int32_t> positions;
  std::vector<StepSeq> step_seqs;
  for (size_t s = 0; s < seqs.size(); ++s) {
    step_seqs.push_back({.first_row = std::ssize(positions),
                         .rows = seqs[s].rows,
                         .start = seqs[s].start,
                         .pages = {pages.tables[s]}});
    for (int64_t r = 0; r < seqs[s].rows; ++r) positions.push_back(seqs[s].start + r);
  }
  const std::vector<int32_t> tokens(positions.size());
  step.tokens = tokens;
  step.positions = positions;
  step.seqs = step_seqs;
  const std::initializer_list<int64_t> shape{std::max<int64_t>(pages.count, 1), c.kv_heads, kPage,
                                             c.head_dim};
  const KvLayer layer{.group = 0,
                      .window = c.window,
                      .keys = Tensor(keys.data(), DType::kF32, shape),
                      .values = Tensor(values.data(), DType::kF32, shape)};
  Weight sink_weight;
  if (c.has_sinks) {
    sink_weight = {.format = kBf16Format,
                   .shape = {c.heads},
                   .data = Tensor(sinks.data(), DType::kBf16, {c.heads})};
  }
  CpuOps ops;
  ops.BeginStep(step);
  const Tensor out = ops.PagedAttention(
      Tensor(qkv.data(), DType::kF32, {RowsOf(seqs), stride}),
      {.heads = c.heads, .kv_heads = c.kv_heads, .head_dim = c.head_dim}, sink_weight, layer, step);
  return {out.data<float>(), out.data<float>() + out.elements()};
}

}  // namespace rose
