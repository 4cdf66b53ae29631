// WeightSource: a weight whose bytes are still in files, for op sets that compute elsewhere than in
// the host's memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "tensor/weight.h"

namespace rose {

enum class WeightPart { kData, kScales };

class WeightSource {
 public:
  virtual ~WeightSource() = default;

  // In the model's table, for messages.
  virtual const std::string& name() const = 0;
  // Format, types and shapes of what Read gives; the addresses are null.
  virtual const Weight& weight() const = 0;

  // Bytes [begin, begin + into.size()) of the data or the scales. From any thread. Fails as reading
  // files does, and with kInvalidArgument where scales are not numbers, naming file and tensor.
  virtual Status Read(WeightPart part, int64_t begin, std::span<uint8_t> into) const = 0;
};

}  // namespace rose
