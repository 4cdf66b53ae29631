#include "models/step_work.h"

#include <algorithm>
#include <cmath>

namespace rose {
namespace {

double Elements(const std::vector<int64_t>& shape) {
  double n = 1;
  for (int64_t size : shape) n *= static_cast<double>(size);
  return n;
}

// Sum over rows at positions start, start + 1, ... of the keys that each sees.
double KeysSeen(const SequenceWork& seq, int64_t window) {
  double keys = 0;
  for (int64_t row = 0; row < seq.rows; ++row) {
    const int64_t all = seq.start + row + 1;
    keys += static_cast<double>(window > 0 ? std::min(all, window) : all);
  }
  return keys;
}

void AddAttention(const ModelInfo& info, int64_t element_bytes, const SequenceWork& seq,
                  StepWork& work) {
  const double key_bytes =
      2.0 * static_cast<double>(info.kv.kv_heads * info.kv.head_dim * element_bytes);
  for (const KvGroup& group : info.kv.groups) {
    const auto layers = static_cast<double>(group.layers.size());
    int64_t keys = seq.start + seq.rows;  // that at least one row sees
    if (group.window > 0) keys = std::min(keys, group.window + seq.rows - 1);
    work.bytes += layers * key_bytes * static_cast<double>(keys);
    work.flops += layers * 4 * KeysSeen(seq, group.window) *
                  static_cast<double>(info.heads * info.kv.head_dim);
  }
}

}  // namespace

StepWork WorkOf(const LoadedModel& loaded, const std::vector<SequenceWork>& step) {
  const ModelInfo& info = loaded.model->info();
  StepWork work;
  double rows = 0, logit_rows = 0;
  for (const SequenceWork& seq : step) {
    rows += static_cast<double>(seq.rows);
    logit_rows += static_cast<double>(seq.logit_rows);
    AddAttention(info, ElementBytes(loaded.ops->kv_dtype()), seq, work);
  }
  const auto chosen = static_cast<double>(info.experts_per_token);
  double share = 1;  // of experts that at least one row chooses
  for (const TensorSpec& spec : loaded.model->tensors()) {
    if (spec.kind != TensorKind::kExperts) continue;
    const auto experts = static_cast<double>(spec.shape[0]);
    share = 1 - std::pow(1 - chosen / experts, rows);
    work.experts = experts * share;
    break;
  }
  for (const TensorSpec& spec : loaded.model->tensors()) {
    const auto bytes = static_cast<double>(loaded.weights.find(spec.name)->second.bytes());
    const double elements = Elements(spec.shape);
    if (spec.role == TensorRole::kEmbedding) {
      work.bytes += rows * bytes / static_cast<double>(spec.shape[0]);
    } else if (spec.role == TensorRole::kLmHead) {
      if (logit_rows > 0) work.bytes += bytes;
      work.flops += 2 * logit_rows * elements;
    } else if (spec.kind == TensorKind::kExperts) {
      work.bytes += share * bytes;
      work.flops += 2 * rows * chosen * elements / static_cast<double>(spec.shape[0]);
    } else {
      const bool is_of_experts = spec.kind == TensorKind::kVector && spec.shape.size() == 2;
      work.bytes += (is_of_experts ? share : 1) * bytes;
      if (spec.kind == TensorKind::kMatrix) work.flops += 2 * rows * elements;
    }
  }
  return work;
}

}  // namespace rose
