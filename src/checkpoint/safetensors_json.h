// The JSON text of a safetensors header, read strictly into plain values; numbers unchecked.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace rose {

struct HeaderJsonEntry {
  std::string dtype;
  std::vector<int64_t> shape;    // 0 .. 2^63-1 each
  std::vector<int64_t> offsets;  // likewise
  bool has_dtype = false, has_shape = false, has_offsets = false;
};

struct HeaderJson {
  std::map<std::string, HeaderJsonEntry> tensors;
  std::map<std::string, std::string> metadata;
};

// kInvalidArgument with the position and the reason if the text is not of the format; a name or key
// that occurs twice is refused too. Depth is bounded by the format (three levels).
Result<HeaderJson> ParseHeaderJson(std::string_view text);

}  // namespace rose
