#include "base/file.h"

#include "base/mapped_file.h"

namespace rose {

Result<std::string> ReadFile(const std::string& path, int64_t max_bytes) {
  ROSE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  const std::span<const uint8_t> bytes = file.bytes();
  if (static_cast<int64_t>(bytes.size()) > max_bytes)
    return InvalidArgument(path, ": has ", bytes.size(), " bytes, more than the ", max_bytes,
                           " that such a file may have");
  return std::string(bytes.begin(), bytes.end());
}

}  // namespace rose
