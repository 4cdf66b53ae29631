#include "profile/ops.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "base/check.h"
#include "bench/median.h"

namespace rose {
namespace {

int64_t SizeOf(const OpRecord& op, std::string_view axis) {
  for (int i = 0; i < op.size_count; ++i) {
    if (op.sizes[i].axis == axis) return op.sizes[i].size;
  }
  return 0;
}

std::string FamilyOf(const OpRecord& op) {
  const std::string_view name = op.name;
  if (name == "gemm") return StrCat("gemm ", SizeOf(op, "rows"), "x", SizeOf(op, "cols"));
  if (name != "attention") return std::string(name);
  const int64_t window = SizeOf(op, "window");
  return window > 0 ? StrCat("attention of ", window) : "attention";
}

// Bytes of a weight of this shape; -1 if the model has none.
double WeightBytes(const LoadedModel& loaded, const std::vector<int64_t>& shape) {
  for (const auto& [name, weight] : loaded.weights) {
    if (weight.shape == shape) return static_cast<double>(weight.bytes());
  }
  return -1;
}

struct Work {
  double bytes = -1, flops = -1;
};

Work Attention(const LoadedModel& loaded, const OpRecord& op,
               const std::vector<SequenceWork>& seqs) {
  const KvLayout& kv = loaded.model->info().kv;
  const int64_t window = SizeOf(op, "window");
  double read = 0, seen = 0;  // keys
  for (const SequenceWork& seq : seqs) {
    const int64_t end = seq.start + seq.rows;
    read += static_cast<double>(window > 0 ? std::min(end, window + seq.rows - 1) : end);
    for (int64_t keys = seq.start + 1; keys <= end; ++keys) {
      seen += static_cast<double>(window > 0 ? std::min(keys, window) : keys);
    }
  }
  const auto element = static_cast<double>(ElementBytes(loaded.ops->kv_dtype()));
  return {.bytes = 2 * element * static_cast<double>(kv.kv_heads * kv.head_dim) * read,
          .flops = 4 * static_cast<double>(SizeOf(op, "heads") * kv.head_dim) * seen};
}

// What an op of a step has to read and multiply, if that is known.
Work WorkOfOp(const LoadedModel& loaded, const OpRecord& op,
              const std::vector<SequenceWork>& seqs) {
  const std::string_view name = op.name;
  const auto tokens = static_cast<double>(SizeOf(op, "tokens"));
  if (name == "attention") return Attention(loaded, op, seqs);
  std::vector<int64_t> shape;
  if (name == "gemm") shape = {SizeOf(op, "rows"), SizeOf(op, "cols")};
  if (name == "route") shape = {SizeOf(op, "experts"), SizeOf(op, "hidden")};
  if (name == "logits") shape = {SizeOf(op, "vocab"), SizeOf(op, "hidden")};
  if (!shape.empty()) {
    return {WeightBytes(loaded, shape), 2 * tokens * static_cast<double>(shape[0] * shape[1])};
  }
  const int64_t experts = SizeOf(op, "experts"), hidden = SizeOf(op, "hidden");
  if (name == "experts_gate_up") shape = {experts, SizeOf(op, "rows"), hidden};
  if (name == "experts_down") shape = {experts, hidden, SizeOf(op, "inter")};
  if (shape.empty()) return {};
  const auto chosen = static_cast<double>(SizeOf(op, "top_k"));
  // Of the experts that at least one token chooses, if each chose evenly.
  const double share = 1 - std::pow(1 - chosen / static_cast<double>(experts), tokens);
  return {share * WeightBytes(loaded, shape),
          2 * tokens * chosen * static_cast<double>(shape[1] * shape[2])};
}

}  // namespace

double TakeOffMarks(std::vector<OpFamily>& families, double forward_us) {
  const auto is_forward = [](const OpFamily& f) {
    return f.name != "upload" && f.name != "feed_tokens" && f.name != "draw";
  };
  double sum = 0, count = 0;
  for (const OpFamily& f : families) {
    if (is_forward(f)) sum += f.marked_us, count += f.count;
  }
  const double each = count > 0 ? std::max(0.0, (sum - forward_us) / count) : 0;
  for (OpFamily& f : families) {
    if (is_forward(f)) f.us = std::max(0.0, f.marked_us - f.count * each);
  }
  return each;
}

std::vector<OpFamily> FamiliesOf(const LoadedModel& loaded, const std::vector<TimedStep>& steps) {
  std::vector<OpFamily> families;
  std::map<std::string, std::vector<double>> us;  // by family, of each step
  for (size_t s = 0; s < steps.size(); ++s) {
    for (const TimedOp& timed : steps[s].ops) {
      if (timed.op.name == nullptr) continue;
      const std::string name = FamilyOf(timed.op);
      std::vector<double>& own = us[name];
      if (own.empty()) families.push_back({.name = name});
      own.resize(s + 1);
      own.back() += timed.us;
    }
  }
  for (OpFamily& family : families) {
    std::vector<double>& own = us[family.name];
    own.resize(steps.size());
    family.us = family.marked_us = Median(own);
    double ops = 0, bytes = 0, flops = 0;
    for (const TimedStep& step : steps) {
      for (const TimedOp& timed : step.ops) {
        if (timed.op.name == nullptr || FamilyOf(timed.op) != family.name) continue;
        const Work work = WorkOfOp(loaded, timed.op, step.seqs);
        ++ops, bytes += work.bytes, flops += work.flops;
      }
    }
    const auto count = static_cast<double>(steps.size());
    family.count = ops / count;
    if (bytes > 0) family.bytes = bytes / count;
    if (flops > 0) family.flops = flops / count;
  }
  return families;
}

}  // namespace rose
