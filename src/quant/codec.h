// Codec: one checkpoint format of a weight. It recognises its tensors under a stem, packs f32 rows,
// and decodes rows back. Since every codec decodes, every op set can run every format.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tensor/weight.h"

namespace rose {

// A tensor as a checkpoint names it.
struct StoredTensor {
  std::string name;
  DType dtype = DType::kBf16;
  std::vector<int64_t> shape;
};

// Finds a stored tensor by name, or nullopt.
using StoredLookup = std::function<std::optional<StoredTensor>(std::string_view name)>;

// What a codec found under a stem.
struct StoredWeight {
  StoredTensor data;
  std::optional<StoredTensor> scales;
  bool transposed = false;  // stored as [.., cols, rows]; must be turned when loaded
};

class Codec {
 public:
  virtual ~Codec() = default;

  virtual const WeightFormat& format() const = 0;
  virtual std::string_view name() const = 0;  // as `rose convert --to` spells it

  // The tensors of a weight with logical `shape` under `stem`, if this format is there. A
  // recognised name with a wrong shape or type is an error that says what was expected.
  virtual Result<std::optional<StoredWeight>> Recognise(std::string_view stem,
                                                        std::span<const int64_t> shape,
                                                        const StoredLookup& lookup) const = 0;
  // The tensors that this format writes for a weight of `shape` under `stem`.
  virtual StoredWeight Describe(std::string_view stem, std::span<const int64_t> shape) const = 0;

  // One matrix [rows, cols] (one expert) from f32 into freshly sized data and scales.
  virtual void Pack(std::span<const float> values, int64_t rows, int64_t cols,
                    std::vector<uint8_t>& data, std::vector<uint8_t>& scales) const = 0;
  // Row `row` of matrix `expert` (0 for a plain matrix) -> out [cols]. Exact.
  virtual void DecodeRow(const Weight& weight, int64_t expert, int64_t row,
                         std::span<float> out) const = 0;
};

// All formats (registry.cc), in the order in which a loader tries them.
std::span<const Codec* const> AllCodecs();
const Codec& CodecFor(const WeightFormat& format);  // by its packing
const Codec* FindCodec(std::string_view name);      // nullptr if there is none

// Row `row` of matrix `expert` in f32: the plain reference that ops and converters share.
inline void DecodeRow(const Weight& weight, int64_t expert, int64_t row, std::span<float> out) {
  CodecFor(weight.format).DecodeRow(weight, expert, row, out);
}

}  // namespace rose
