#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/file.h"

namespace rose {
namespace {

// Nothing here but what a signal's handler may call.
void OnBusError(int signal, siginfo_t* info, void* /*context*/) {
  constexpr char kSentence[] =
      "rose: a file that is in use, as those of a checkpoint are, was cut short, or its disk "
      "failed; start again when it is whole\n";
  if (info->si_code == BUS_ADRERR) {
    const ssize_t ignored = ::write(STDERR_FILENO, kSentence, sizeof(kSentence) - 1);
    (void)ignored;
    ::_exit(1);
  }
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

}  // namespace

void EndWhereFilesAreCut() {
  struct sigaction action{};
  action.sa_sigaction = OnBusError;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

Result<MappedFile> MappedFile::Open(const std::string& path) {
  // Opening a pipe would wait for its writer; without blocking it is refused below.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    if (errno == ENOENT) return NotFound(path, ": no such file");
    return IoError(path, ": cannot open: ", std::strerror(errno));
  }
  MappedFile file;
  file.path_ = path;
  file.fd_ = fd;
  struct stat info{};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    return IoError(path, ": not a regular file");
  }
  if (info.st_size > 0) {
    void* data = ::mmap(nullptr, info.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) return IoError(path, ": cannot map: ", std::strerror(errno));
    file.data_ = static_cast<const uint8_t*>(data);
    file.size_ = info.st_size;
  }
  return file;
}

Status MappedFile::Read(int64_t begin, std::span<uint8_t> into) const {
  while (!into.empty()) {
    const ssize_t got = ::pread(fd_, into.data(), into.size(), begin);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(path_, "read");
    if (got == 0) {
      return IoError(path_, ": the file ends at byte ", begin, ", where ", into.size(),
                     " more are expected; it was longer when it was opened");
    }
    into = into.subspan(got);
    begin += got;
  }
  return Status();
}

MappedFile::MappedFile(MappedFile&& other) noexcept {
  *this = std::move(other);
}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(fd_, other.fd_);
  return *this;
}

MappedFile::~MappedFile() {
  if (fd_ >= 0) ::close(fd_);
  if (data_ != nullptr) ::munmap(const_cast<uint8_t*>(data_), size_);
}

}  // namespace rose
