// Model: a config, a tensor table, and a forward pass over an OpSet. One file for each family.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "checkpoint/tensor_spec.h"
#include "ops/ops.h"
#include "tensor/kv_layout.h"

namespace rose {

// What the rest of the program may know of a model.
struct ModelInfo {
  std::string architecture;  // "GptOssForCausalLM"
  int64_t vocab = 0;
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t max_positions = 0;
  int64_t heads = 0;              // of queries
  int64_t experts_per_token = 0;  // 0 = it has no experts
  KvLayout kv;
};

// Finds an adopted weight by its table name; every name of the table is there.
using WeightLookup = std::function<const Weight&(std::string_view name)>;

class Model {
 public:
  virtual ~Model() = default;

  virtual const ModelInfo& info() const = 0;
  virtual const std::vector<TensorSpec>& tensors() const = 0;

  // Takes its weights. Called once, before the first Forward.
  virtual void Bind(const WeightLookup& weight) = 0;

  // Runs the step that ops.BeginStep has begun. Writes K and V of all its rows into `kv`; returns
  // logits F32 [step.logit_rows, vocab] in the op set's step arena.
  virtual Tensor Forward(OpSet& ops, KvCache& kv, const Step& step) const = 0;
};

// The model for the text of a config.json, by its "architectures" (models/registry.cc). A wrong
// value is kInvalidArgument naming the key; an unknown architecture is kUnsupported listing the
// known ones.
Result<std::unique_ptr<Model>> CreateModel(std::string_view config_json);

}  // namespace rose
