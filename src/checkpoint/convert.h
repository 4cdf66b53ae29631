// Conversion of a checkpoint's weights to another format, with a proof of what it cost.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/tensor_spec.h"
#include "quant/codec.h"

namespace rose {

struct ConvertOptions {
  const Codec* to = nullptr;
  std::string out;      // the folder to make; must not exist
  bool strict = false;  // fail at the first weight that does not come through bit for bit
  int threads = 1;
  std::function<void(const LoadProgress&)> progress;  // bytes written; may be empty
  int64_t max_shard_bytes = 4'800'000'000;
};

// What was done; the blocks are those of 128 x 128 numbers (block_report.h).
struct ConvertSummary {
  int64_t converted = 0, copied = 0;  // weights; the parts of a joined weight count apart
  int64_t resumed = 0;                // of these, done by an earlier run that was interrupted
  int64_t bytes_before = 0, bytes_after = 0;  // of all tensors
  int64_t blocks = 0, inexact_blocks = 0;
  int64_t inexact_values = 0;
  double max_relative_error = 0;
  std::vector<int64_t> spreads;      // spreads[s] = blocks whose exponents spread over s
  std::vector<std::string> inexact;  // the first few inexact blocks, as sentences
  std::string report_path;           // the JSON file with everything
};

// Writes `out`: every expert weight in the format options.to (and, when that is bf16, every matrix
// that is not), all other tensors as they are, config.json fitted, the small files beside it
// copied, and convert_report.json.
//
// One matrix (an expert) per thread is in memory at a time. All is written to `out`.partial, which
// is renamed at the end. A run that was killed is taken up again by the next run with the same
// source and format: a journal in that folder says which weights are on the disk. A run that fails
// removes the folder: kInvalidArgument for tensors that do not fit `table` or are not numbers,
// kUnsupported for a weight that the format cannot hold, kIo for a full disk, kUnavailable when
// `strict` refuses or another run is at work there.
Result<ConvertSummary> ConvertCheckpoint(const Checkpoint& checkpoint,
                                         const std::vector<TensorSpec>& table,
                                         const ConvertOptions& options);

}  // namespace rose
