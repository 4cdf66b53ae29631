// Rotary embedding, the paged KV cache, and causal attention with sinks. Spec A.4 and A.5.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/dot.h"
#include "ops/head_norms.h"
#include "tensor/expect_shape.h"

namespace rose {
namespace {

// Where the vector of (position, kv head) starts in keys or values.
float* KvRow(const Tensor& pages, const StepSeq& seq, int group, int64_t position, int64_t head) {
  const int32_t page = seq.pages[group][position / KvLayout::kPageSize];
  ROSE_CHECK(page >= 0 && page < pages.dim(0), "page ", page, " of ", pages.dim(0), " at position ",
             position);
  const int64_t slot =
      (page * pages.dim(1) + head) * KvLayout::kPageSize + position % KvLayout::kPageSize;
  return pages.data<float>() + slot * pages.dim(3);
}

// Turns one head's vector; dims i and i + half are a pair.
void Rotate(float* x, const Rope& rope, int64_t position) {
  const size_t half = rope.inv_freq.size();
  for (size_t i = 0; i < half; ++i) {
    const float angle = static_cast<float>(position) * rope.inv_freq[i];
    const float c = std::cos(angle) * rope.scale;
    const float s = std::sin(angle) * rope.scale;
    const float a = x[i];
    const float b = x[i + half];
    x[i] = a * c - b * s;
    x[i + half] = b * c + a * s;
  }
}

// RMSNorm of one head's vector in place; nothing where the weight is empty.
void NormHead(float* x, const Weight& weight, float eps) {
  if (weight.empty()) return;
  const int64_t dim = weight.shape[0];
  const float scale = 1.0f / std::sqrt(Dot(x, x, dim) / static_cast<float>(dim) + eps);
  for (int64_t i = 0; i < dim; ++i) x[i] = x[i] * scale * VectorAt(weight, i);
}

void CheckQkv(const Tensor& qkv, const AttentionShape& shape, const KvLayer& kv, const Step& step) {
  ROSE_CHECK_EQ(shape.heads % shape.kv_heads, 0);
  Dim tokens{"tokens", static_cast<int64_t>(step.tokens.size())};
  Dim width{"(heads + 2 kv_heads) * head_dim", (shape.heads + 2 * shape.kv_heads) * shape.head_dim};
  ExpectShape("qkv", qkv, DType::kF32, {&tokens, &width});
  Dim pages{"pages"}, kv_heads{"kv_heads", shape.kv_heads},
      page_size{"page size", KvLayout::kPageSize}, head_dim{"head_dim", shape.head_dim};
  ExpectShape("keys", kv.keys, DType::kF32, {&pages, &kv_heads, &page_size, &head_dim});
  ExpectShape("values", kv.values, DType::kF32, {&pages, &kv_heads, &page_size, &head_dim});
}

}  // namespace

void CpuOps::RopeAppendKv(Tensor& qkv, const AttentionShape& shape, const HeadNorms& norms,
                          const Rope& rope, KvLayer& kv, const Step& step) {
  CheckQkv(qkv, shape, kv, step);
  CheckHeadNorms(norms, shape.head_dim);
  ROSE_CHECK_EQ(static_cast<int64_t>(rope.inv_freq.size()) * 2, shape.head_dim);
  const int64_t dim = shape.head_dim;
  for (const StepSeq& seq : step.seqs) {
    for (int64_t row = seq.first_row; row < seq.first_row + seq.rows; ++row) {
      const int64_t position = step.positions[row];
      float* q = qkv.data<float>() + row * qkv.dim(1);
      float* k = q + shape.heads * dim;
      float* v = k + shape.kv_heads * dim;
      for (int64_t head = 0; head < shape.heads + shape.kv_heads; ++head) {
        NormHead(q + head * dim, head < shape.heads ? norms.q : norms.k, norms.eps);
        Rotate(q + head * dim, rope, position);
      }
      for (int64_t head = 0; head < shape.kv_heads; ++head) {
        std::copy_n(k + head * dim, dim, KvRow(kv.keys, seq, kv.group, position, head));
        std::copy_n(v + head * dim, dim, KvRow(kv.values, seq, kv.group, position, head));
      }
    }
  }
}

Tensor CpuOps::PagedAttention(const Tensor& qkv, const AttentionShape& shape, const Weight& sinks,
                              const KvLayer& kv, const Step& step) {
  CheckQkv(qkv, shape, kv, step);
  Dim heads{"heads", shape.heads};
  if (!sinks.empty()) ExpectShape("sinks", sinks, {&heads});
  const int64_t dim = shape.head_dim;
  const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
  Tensor out = arena_.Take(DType::kF32, {qkv.dim(0), shape.heads * dim});
  std::vector<float> scores;
  for (const StepSeq& seq : step.seqs) {
    for (int64_t row = seq.first_row; row < seq.first_row + seq.rows; ++row) {
      const int64_t position = step.positions[row];
      const int64_t first = kv.window > 0 ? std::max<int64_t>(0, position - kv.window + 1) : 0;
      scores.resize(position - first + 1);
      for (int64_t head = 0; head < shape.heads; ++head) {
        const int64_t kv_head = head / (shape.heads / shape.kv_heads);
        const float* q = qkv.data<float>() + row * qkv.dim(1) + head * dim;
        float* o = out.data<float>() + row * out.dim(1) + head * dim;
        // The sink is one more logit, neither scaled nor masked, whose value is nothing.
        float largest =
            sinks.empty() ? -std::numeric_limits<float>::infinity() : VectorAt(sinks, head);
        for (int64_t j = first; j <= position; ++j) {
          const float s = Dot(q, KvRow(kv.keys, seq, kv.group, j, kv_head), dim) * scale;
          scores[j - first] = s;
          largest = std::max(largest, s);
        }
        float sum = sinks.empty() ? 0.0f : std::exp(VectorAt(sinks, head) - largest);
        for (float& s : scores) {
          s = std::exp(s - largest);
          sum += s;
        }
        std::fill_n(o, dim, 0.0f);
        for (int64_t j = first; j <= position; ++j) {
          const float* v = KvRow(kv.values, seq, kv.group, j, kv_head);
          const float p = scores[j - first] / sum;
          for (int64_t i = 0; i < dim; ++i) o[i] += p * v[i];
        }
      }
    }
  }
  return out;
}

}  // namespace rose
