// Made-up weights as a checkpoint in the published layout, for comparison with other software.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/random_recipe.h"

namespace rose {

struct MakeCheckpointOptions {
  RandomOptions random;
  std::string out;         // the folder to make; must not exist
  std::string side_files;  // folder whose tokenizer and chat template are copied; empty = none
  const std::atomic<bool>* stop = nullptr;  // true: fail soon, as one who waits no longer wants
  int threads = 1;
  std::function<void(const LoadProgress&)> progress;  // bytes written; may be empty
  int64_t max_shard_bytes = 4'800'000'000;
};

struct MakeCheckpointSummary {
  int64_t tensors = 0, bytes = 0, files = 0;
};

// Writes config.json, the tensors of every row of `table` under the names of its first source, and
// their index. The bytes are those of OpSet::Generate with the same options. Some 32 MiB for each
// thread are in memory at a time, or one expert where the experts are bf16. All is written to
// `out`.partial, which is renamed at the end and removed on failure. Fails as RandomRecipes does;
// kInvalidArgument if a folder is in the way (of two at once, of one who came first), kNotFound if
// `side_files` has no tokenizer.json, kUnsupported for a table whose parts have no sizes and for
// mxfp4 experts that lie apart, kIo for a full disk, kUnavailable after `stop`.
Result<MakeCheckpointSummary> MakeCheckpoint(std::string_view config_json,
                                             const std::vector<TensorSpec>& table,
                                             const MakeCheckpointOptions& options);

}  // namespace rose
