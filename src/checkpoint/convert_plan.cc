#include "checkpoint/convert_plan.h"

#include <algorithm>
#include <cstdio>

#include "checkpoint/convert_config.h"
#include "checkpoint/safetensors.h"

namespace rose {
namespace {

// Experts take any format. Of the other matrices only those are touched that must be decoded:
// rounding dense bf16 weights costs accuracy, which is for a later, measured decision.
bool NeedsConversion(TensorKind kind, const Codec& from, const Codec& to) {
  switch (kind) {
    case TensorKind::kVector:
      return false;
    case TensorKind::kMatrix:
      return &from != &to && to.format().packing == Packing::kBf16;
    case TensorKind::kExperts:
      return &from != &to;
  }
  ROSE_CHECK(false, "tensor kind ", static_cast<int>(kind));
}

Result<ConvertJob> MakeJob(const ResolvedWeight& weight, size_t part, const Codec& to) {
  ConvertJob job;
  job.stem = weight.stems[part];
  job.kind = weight.spec->kind;
  job.from = weight.codec;
  job.source = weight.parts[part];
  job.shape = weight.spec->shape;
  if (weight.stems.size() > 1 || weight.is_apart) {
    if (job.kind == TensorKind::kExperts) job.shape.erase(job.shape.begin());
    job.shape[0] = job.source.data.shape[0];
  }
  job.is_converted = NeedsConversion(weight.spec->kind, *weight.codec, to);
  job.target = job.source;
  if (!job.is_converted) return job;
  const int64_t cols = job.shape.back(), block = to.format().block_cols;
  if (to.format().packing == Packing::kMxfp4 && cols % block != 0)
    return Unsupported("'", job.stem, "' has rows of ", cols, " numbers, and ", to.name(),
                       " needs a multiple of ", block);
  job.target = to.Describe(job.stem, job.shape);
  return job;
}

// The usual names: one file, or numbered from 1 with the count.
void NameShards(std::vector<ConvertShard>& shards) {
  if (shards.size() == 1) {
    shards[0].file = "model.safetensors";
    return;
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    char name[64];
    std::snprintf(name, sizeof(name), "model-%05zu-of-%05zu.safetensors", i + 1, shards.size());
    shards[i].file = name;
  }
}

}  // namespace

std::vector<StoredTensor> ConvertJob::tensors() const {
  std::vector<StoredTensor> tensors = {target.data};
  if (target.scales) tensors.push_back(*target.scales);
  return tensors;
}

int64_t ConvertJob::bytes() const {
  int64_t bytes = 0;
  for (const StoredTensor& tensor : tensors()) bytes += StoredBytes(tensor);
  return bytes;
}

std::vector<std::string> ConvertPlan::KeptModules(const Codec& to) const {
  std::vector<std::string> kept;
  for (const ConvertJob& job : jobs) {
    if (job.kind == TensorKind::kVector || job.is_converted || job.from == &to) continue;
    std::string name = ModuleOf(job.stem);
    if (std::find(kept.begin(), kept.end(), name) == kept.end()) kept.push_back(std::move(name));
  }
  return kept;
}

Result<ConvertPlan> PlanConversion(const std::vector<ResolvedWeight>& weights, const Codec& to,
                                   int64_t max_shard_bytes) {
  ConvertPlan plan;
  for (const ResolvedWeight& weight : weights) {
    for (size_t part = 0; part < weight.parts.size(); ++part) {
      ROSE_ASSIGN_OR_RETURN(ConvertJob job, MakeJob(weight, part, to));
      plan.jobs.push_back(std::move(job));
    }
  }
  if (std::none_of(plan.jobs.begin(), plan.jobs.end(), [](auto& job) { return job.is_converted; }))
    return InvalidArgument("there is nothing to convert: no weight would change by going to ",
                           to.name());
  int64_t shard_bytes = 0;
  for (size_t i = 0; i < plan.jobs.size(); ++i) {
    const ConvertJob& job = plan.jobs[i];
    const int64_t bytes = job.bytes();
    if (plan.shards.empty() || shard_bytes + bytes > max_shard_bytes) {
      plan.shards.push_back({"", static_cast<int64_t>(i), static_cast<int64_t>(i), {}});
      shard_bytes = 0;
    }
    ConvertShard& shard = plan.shards.back();
    shard.end_job = static_cast<int64_t>(i) + 1;
    for (const StoredTensor& tensor : job.tensors()) shard.tensors.push_back(tensor);
    shard_bytes += bytes;
    plan.bytes += bytes;
  }
  NameShards(plan.shards);
  return plan;
}

}  // namespace rose
