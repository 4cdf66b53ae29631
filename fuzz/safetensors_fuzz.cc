// Any bytes as a safetensors file: refused, or tensors that tile the rest of the file.
#include <cstddef>
#include <cstdint>

#include "checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rose;
  const Result<SafetensorsHeader> header = ParseSafetensors({data, size});
  if (!header.ok()) {
    ROSE_CHECK(!header.status().message().empty(), "a failure without a message");
    return 0;
  }
  const int64_t file_bytes = static_cast<int64_t>(size);
  int64_t position = header->entries.empty() ? file_bytes : header->entries.front().begin;
  for (const SafetensorsEntry& entry : header->entries) {
    ROSE_CHECK_EQ(entry.begin, position);
    ROSE_CHECK_EQ(entry.end - entry.begin, StoredBytes(entry.tensor));
    position = entry.end;
  }
  ROSE_CHECK_EQ(position, file_bytes);
  return 0;
}
