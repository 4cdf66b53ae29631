#include "base/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

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

std::string PartialName(const std::string& path) {
  return path + ".partial";
}

Status WriteFileAtomically(const std::string& path, std::string_view text) {
  const std::string partial = PartialName(path);
  const int file = ::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return FileError(partial, "open for writing");
  Status status =
      WriteAll(file, partial, {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  if (status.ok() && ::fdatasync(file) != 0) status = FileError(partial, "write");
  ::close(file);
  if (status.ok() && ::rename(partial.c_str(), path.c_str()) != 0)
    status = FileError(path, "rename");
  if (!status.ok()) ::unlink(partial.c_str());
  return status;
}

Status WriteAll(int file, const std::string& path, std::span<const uint8_t> bytes) {
  constexpr size_t kPiece = size_t{1} << 30;  // one write takes less than 2 GiB
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), std::min(bytes.size(), kPiece));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError(path, "write");
    bytes = bytes.subspan(written);
  }
  return Status();
}

Status FileError(const std::string& path, const char* what) {
  return IoError(path, ": cannot ", what, ": ", std::strerror(errno));
}

}  // namespace rose
