#include "base/file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
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

Result<std::string> ReadFileOrPipe(const std::string& path, int64_t max_bytes) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0 || !S_ISFIFO(info.st_mode)) return ReadFile(path, max_bytes);
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return FileError(path, "open");
  std::string text;
  char piece[1 << 16];
  ssize_t size = 0;
  do {
    size = ::read(file, piece, sizeof piece);
    if (size > 0) text.append(piece, static_cast<size_t>(size));
  } while ((size > 0 || (size < 0 && errno == EINTR)) &&
           static_cast<int64_t>(text.size()) <= max_bytes);
  const Status failed = size < 0 ? FileError(path, "read") : Status();
  ::close(file);
  if (!failed.ok()) return failed;
  if (static_cast<int64_t>(text.size()) > max_bytes)
    return InvalidArgument(path, ": gives more than the ", max_bytes,
                           " bytes that such a file may have");
  return text;
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

bool TakesBytes(int file, int milliseconds) {
  pollfd wanted{.fd = file, .events = POLLOUT, .revents = 0};
  int ready = 0;
  do {
    ready = ::poll(&wanted, 1, milliseconds);
  } while (ready < 0 && errno == EINTR);
  // That the reader of a pipe has gone is an event too: the write then fails, and does not wait.
  return ready > 0;
}

void FillStandardStreams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // It gets the lowest number that is free, which is this one.
    (void)::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

Status FileError(const std::string& path, const char* what) {
  return IoError(path, ": cannot ", what, ": ", std::strerror(errno));
}

}  // namespace rose
