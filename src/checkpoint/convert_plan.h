// What a conversion has to do: jobs in the order of the output, and the files they go to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/resolve.h"

namespace rose {

// One source of a table row: converted, or copied as it is.
struct ConvertJob {
  bool is_converted = false;
  std::string stem;
  TensorKind kind = TensorKind::kMatrix;
  const Codec* from = nullptr;
  std::vector<int64_t> shape;  // logical, of this part of the weight
  StoredWeight source;
  StoredWeight target;  // equal to `source` if copied

  int64_t bytes() const;                      // of the target's tensors
  std::vector<StoredTensor> tensors() const;  // of the target: data, then scales if there are any
};

struct ConvertShard {
  std::string file;
  int64_t first_job = 0, end_job = 0;
  std::vector<StoredTensor> tensors;  // of its jobs
};

struct ConvertPlan {
  std::vector<ConvertJob> jobs;
  std::vector<ConvertShard> shards;
  int64_t bytes = 0;  // of all tensors

  // Modules ("model.layers.*.mlp.router", every number a '*') of the matrices that are not in `to`
  // afterwards, each once, in the order of the jobs.
  std::vector<std::string> KeptModules(const Codec& to) const;
};

// kUnsupported if a weight cannot be stored in `to`; kInvalidArgument if nothing would change.
Result<ConvertPlan> PlanConversion(const std::vector<ResolvedWeight>& weights, const Codec& to,
                                   int64_t max_shard_bytes);

}  // namespace rose
