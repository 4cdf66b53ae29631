// Which tensors of a checkpoint make up each row of a model's table: loading, inspection and
// conversion all begin here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/tensor_spec.h"
#include "quant/codec.h"

namespace rose {

struct ResolvedWeight {
  const TensorSpec* spec = nullptr;  // of the table given
  const Codec* codec = nullptr;      // of all parts
  TensorSource stems;                // the alternative that was found, '*' replaced
  std::vector<StoredWeight> parts;   // one for each stem, joined along the rows
  bool is_apart = false;             // experts, each in tensors of its own
  int64_t woven = 1;                 // so many parts at a time have their rows woven
  WeightFormat format;               // of the whole in memory; its parts are as the codec says
};

struct Resolution {
  std::vector<ResolvedWeight> weights;  // in table order; without those that have a problem
  std::vector<std::string> missing;     // sentences and names, ready to print
  std::vector<std::string> wrong;       // shape, type, or parts that do not join
  std::vector<std::string> left_over;   // tensors that no row consumed

  // kInvalidArgument with all of these, if there are any.
  Status ToStatus(const std::string& folder) const;
};

// `table` must outlive the result.
Resolution ResolveTable(const Checkpoint& checkpoint, const std::vector<TensorSpec>& table);

}  // namespace rose
