// Rotary embedding, the KV cache and attention. Keys of a page lie transposed, [head_dim,
// kPageSize], so that a vector register holds one dimension of many keys.
#include <algorithm>
#include <cmath>

#include "ops/cpu_fast/bytes.h"
#include "ops/cpu_fast/cpu_fast_ops.h"
#include "ops/head_norms.h"
#include "tensor/expect_shape.h"

namespace rose {
namespace {

constexpr int64_t kPage = KvLayout::kPageSize;
// Rows that walk over the pages together: each page is read from far memory once for all of them.
constexpr int64_t kTileRows = 8;
constexpr int64_t kRopeRows = 8;  // rows of one item of RopeAppendKv

// Turns one head's vector by the cosines and sines [head_dim/2] of a position.
void Rotate(float* x, std::span<const float> cosines, std::span<const float> sines) {
  const size_t half = cosines.size();
  for (size_t i = 0; i < half; ++i) {
    const float a = x[i];
    const float b = x[i + half];
    x[i] = a * cosines[i] - b * sines[i];
    x[i + half] = b * cosines[i] + a * sines[i];
  }
}

float ToCell(float x, float*) {
  return x;
}
Bf16 ToCell(float x, Bf16*) {
  return ToBf16(x);
}

// Writes one row's key and value of a head to a page at `slot`.
template <typename Cell>
void WriteCells(const float* k, const float* v, int64_t dim, int64_t slot, Cell* keys,
                Cell* values) {
  for (int64_t d = 0; d < dim; ++d) keys[d * kPage + slot] = ToCell(k[d], keys);
  for (int64_t d = 0; d < dim; ++d) values[slot * dim + d] = ToCell(v[d], values);
}

void CheckQkv(const Tensor& qkv, const AttentionShape& shape, const KvLayer& kv, const Step& step,
              DType kv_dtype) {
  ROSE_CHECK_EQ(shape.heads % shape.kv_heads, 0);
  Dim tokens{"tokens", static_cast<int64_t>(step.tokens.size())};
  Dim width{"(heads + 2 kv_heads) * head_dim", (shape.heads + 2 * shape.kv_heads) * shape.head_dim};
  ExpectShape("qkv", qkv, DType::kF32, {&tokens, &width});
  Dim pages{"pages"}, kv_heads{"kv_heads", shape.kv_heads}, page{"page size", kPage},
      head_dim{"head_dim", shape.head_dim};
  ExpectShape("keys", kv.keys, kv_dtype, {&pages, &kv_heads, &page, &head_dim});
  ExpectShape("values", kv.values, kv_dtype, {&pages, &kv_heads, &page, &head_dim});
}

// Pages of the keys that rows [0, rows) of a sequence from `position` on can reach must exist.
void CheckPages(const StepSeq& seq, const KvLayer& kv) {
  const int64_t reach = kv.window > 0 ? std::max<int64_t>(0, seq.start - kv.window + 1) : 0;
  for (int64_t p = reach / kPage; p * kPage < seq.start + seq.rows; ++p) {
    const int32_t page = seq.pages[kv.group][p];
    ROSE_CHECK(page >= 0 && page < kv.keys.dim(0), "page ", page, " of ", kv.keys.dim(0),
               " at position ", p * kPage);
  }
}

}  // namespace

void CpuFastOps::RopeAppendKv(Tensor& qkv, const AttentionShape& shape, const HeadNorms& norms,
                              const Rope& rope, KvLayer& kv, const Step& step) {
  CheckQkv(qkv, shape, kv, step, kv_dtype_);
  CheckHeadNorms(norms, shape.head_dim);
  const int64_t dim = shape.head_dim;
  const int64_t half = dim / 2;
  ROSE_CHECK_EQ(static_cast<int64_t>(rope.inv_freq.size()), half);
  struct Item {
    const StepSeq* seq;
    int64_t row;  // rows [row, row + kRopeRows) as far as they are the sequence's
  };
  std::vector<Item> items;
  for (const StepSeq& seq : step.seqs) {
    CheckPages(seq, kv);
    for (int64_t row = 0; row < seq.rows; row += kRopeRows) items.push_back({&seq, row});
  }
  const Tensor turns = arena_.Take(DType::kF32, {pool_.threads(), 2, half});
  pool_.Run(static_cast<int64_t>(items.size()), [&](int64_t item, int thread) {
    const StepSeq& seq = *items[item].seq;
    float* cosines = turns.data<float>() + thread * 2 * half;
    float* sines = cosines + half;
    const int64_t end = std::min(seq.rows, items[item].row + kRopeRows);
    for (int64_t r = items[item].row; r < end; ++r) {
      const int64_t row = seq.first_row + r;
      const int64_t position = step.positions[row];
      for (int64_t i = 0; i < half; ++i) {
        const float angle = static_cast<float>(position) * rope.inv_freq[i];
        cosines[i] = std::cos(angle) * rope.scale;
        sines[i] = std::sin(angle) * rope.scale;
      }
      const std::span<const float> c{cosines, static_cast<size_t>(half)};
      const std::span<const float> s{sines, static_cast<size_t>(half)};
      float* q = qkv.data<float>() + row * qkv.dim(1);
      const float* k = q + shape.heads * dim;
      const float* v = k + shape.kv_heads * dim;
      for (int64_t h = 0; h < shape.heads + shape.kv_heads; ++h) {
        const Weight& norm = h < shape.heads ? norms.q : norms.k;
        if (!norm.empty())
          kernels_->rms_norm(q + h * dim, static_cast<const uint8_t*>(norm.data.raw()), dim,
                             norms.eps, q + h * dim);
        Rotate(q + h * dim, c, s);
      }
      const int64_t page = seq.pages[kv.group][position / kPage];
      for (int64_t h = 0; h < shape.kv_heads; ++h) {
        const int64_t at = (page * shape.kv_heads + h) * kPage * dim;
        if (kv_dtype_ == DType::kF32) {
          WriteCells(k + h * dim, v + h * dim, dim, position % kPage, kv.keys.data<float>() + at,
                     kv.values.data<float>() + at);
        } else {
          WriteCells(k + h * dim, v + h * dim, dim, position % kPage, kv.keys.data<Bf16>() + at,
                     kv.values.data<Bf16>() + at);
        }
      }
    }
  });
}

Tensor CpuFastOps::PagedAttention(const Tensor& qkv, const AttentionShape& shape,
                                  const Weight& sinks, const KvLayer& kv, const Step& step) {
  CheckQkv(qkv, shape, kv, step, kv_dtype_);
  Dim heads{"heads", shape.heads};
  if (!sinks.empty()) ExpectShape("sinks", sinks, {&heads});
  const Tensor sink_values = arena_.Take(DType::kF32, {shape.heads});
  if (!sinks.empty()) {
    for (int64_t h = 0; h < shape.heads; ++h)
      sink_values.data<float>()[h] = Bf16At(static_cast<const uint8_t*>(sinks.data.raw()), h);
  }
  Tensor out = arena_.Take(DType::kF32, {qkv.dim(0), shape.heads * shape.head_dim});
  const int64_t scratch_floats = AttentionScratch(shape, kTileRows);
  const Tensor scratch = arena_.Take(DType::kF32, {pool_.threads(), scratch_floats});

  struct Item {
    const StepSeq* seq;
    int64_t row;
    int64_t kv_head;
  };
  std::vector<Item> items;
  for (const StepSeq& seq : step.seqs) {
    CheckPages(seq, kv);
    for (int64_t row = 0; row < seq.rows; row += kTileRows)
      for (int64_t h = 0; h < shape.kv_heads; ++h) items.push_back({&seq, row, h});
  }
  // Late rows of a prompt see the most keys: they go first, so that no thread ends with a long one.
  std::reverse(items.begin(), items.end());
  pool_.Run(static_cast<int64_t>(items.size()), [&](int64_t item, int thread) {
    const StepSeq& seq = *items[item].seq;
    const int64_t row = seq.first_row + items[item].row;
    kernels_->attention({.shape = shape,
                         .kv_head = items[item].kv_head,
                         .rows = std::min(kTileRows, seq.rows - items[item].row),
                         .position = seq.start + items[item].row,
                         .q = qkv.data<float>() + row * qkv.dim(1),
                         .q_stride = qkv.dim(1),
                         .out = out.data<float>() + row * out.dim(1),
                         .out_stride = out.dim(1),
                         .sinks = sinks.empty() ? nullptr : sink_values.data<float>(),
                         .kv = &kv,
                         .pages = seq.pages[kv.group].data(),
                         .scratch = scratch.data<float>() + thread * scratch_floats});
  });
  return out;
}

}  // namespace rose
