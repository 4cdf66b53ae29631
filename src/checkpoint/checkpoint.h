// A checkpoint folder, opened: configuration and headers read, data mapped, nothing copied.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "checkpoint/tensor_spec.h"
#include "quant/codec.h"
#include "tensor/weight.h"
#include "tensor/weight_source.h"

namespace rose {

class Checkpoint {
 public:
  virtual ~Checkpoint() = default;

  // The folder that holds config.json: the one opened, or its subfolder `original`.
  virtual const std::string& folder() const = 0;
  virtual const std::string& config_json() const = 0;
  // Every tensor of every shard, by name.
  virtual const std::map<std::string, StoredTensor, std::less<>>& tensors() const = 0;
  virtual const std::vector<std::string>& files() const = 0;  // safetensors files of the folder
  // A view of a tensor's bytes in the mapped file; the name must exist. A scalar is [1]. Read only,
  // and not necessarily aligned to its element type.
  virtual Tensor Data(std::string_view name) const = 0;
  // Copies a part of those bytes, read from the file and not from the mapping: from any thread.
  // kIo, naming file and tensor, if the file cannot be read or is shorter by now.
  virtual Status Read(std::string_view name, int64_t begin, std::span<uint8_t> into) const = 0;
  virtual int64_t bytes() const = 0;  // of all tensors
};

// Reads <folder>/config.json (or original/config.json) and the headers of model.safetensors, of the
// shards of model.safetensors.index.json, or of model--*.safetensors. Every defect of a header or
// an index is kInvalidArgument with file and tensor named; a missing file is kNotFound.
Result<std::unique_ptr<Checkpoint>> OpenCheckpoint(const std::string& folder);

// The weights of a table in host memory: views of the mapped files where that is possible, else
// joined or transposed copies.
class HostWeights {
 public:
  virtual ~HostWeights() = default;
  virtual const Weight& Get(std::string_view name) const = 0;  // a name of the table
};

struct LoadProgress {
  int64_t done_bytes = 0;
  int64_t total_bytes = 0;
};

// Loads what `table` asks for, with `threads` readers. Strict: missing and left-over tensors, wrong
// shapes and types, and NaN scales are all listed by name in one kInvalidArgument. The result
// refers to `checkpoint`, which must outlive it. `progress` may be empty; it is called from any
// thread.
Result<std::unique_ptr<HostWeights>> LoadWeights(
    const Checkpoint& checkpoint, const std::vector<TensorSpec>& table, int threads,
    const std::function<void(const LoadProgress&)>& progress);

// The same for who reads the files piece by piece: one source a row of the table, in its order,
// with the same bytes. Nothing is read yet but headers; NaN scales are found when they are read.
Result<std::vector<std::unique_ptr<WeightSource>>> WeightsInFiles(
    const Checkpoint& checkpoint, const std::vector<TensorSpec>& table);

}  // namespace rose
