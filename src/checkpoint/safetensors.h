// The safetensors container (spec B.3): 8 bytes header length (little endian), a JSON header, data.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "quant/codec.h"

namespace rose {

struct SafetensorsEntry {
  StoredTensor tensor;
  int64_t begin = 0;  // in bytes from the start of the file
  int64_t end = 0;
};

struct SafetensorsHeader {
  static constexpr int64_t kMaxHeaderBytes = 100'000'000;

  std::vector<SafetensorsEntry> entries;        // in the order of their data
  std::map<std::string, std::string> metadata;  // "__metadata__"
};

// Bytes of a tensor's data. The tensor must be one whose size is known to fit (a parsed one).
int64_t StoredBytes(const StoredTensor& tensor);

// Reads and checks the header of a whole file in memory. Everything is refused that does not add
// up: a header longer than the file or than kMaxHeaderBytes, text that is not the JSON object of
// the format, a name twice, an element type that rose does not read, more than 4 axes, sizes that
// overflow, data that is not exactly shape x type long, lies outside the file, overlaps another
// tensor's, or leaves a gap. The message (kInvalidArgument) names the tensor but not the file.
Result<SafetensorsHeader> ParseSafetensors(std::span<const uint8_t> file);

// Length and JSON text of the header for tensors that lie one after the other in this order, padded
// with spaces to a multiple of 64 bytes so that the data is aligned in a mapped file.
std::string SafetensorsHeaderBytes(const std::vector<StoredTensor>& tensors);

}  // namespace rose
