#include "checkpoint/safetensors_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "base/file.h"
#include "checkpoint/safetensors.h"

namespace rose {
namespace {

// Whether the file begins with `header` and is at least `bytes` long.
bool BeginsWith(int file, const std::string& header, int64_t bytes) {
  struct stat info{};
  if (::fstat(file, &info) != 0 || info.st_size < bytes) return false;
  std::string found(header.size(), '\0');
  return ::pread(file, found.data(), found.size(), 0) == static_cast<ssize_t>(found.size()) &&
         found == header;
}

}  // namespace

Result<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Create(
    const std::string& path, const std::vector<StoredTensor>& tensors, int64_t kept_tensors) {
  const std::string partial = PartialName(path);
  const int flags = O_RDWR | O_CREAT | O_CLOEXEC | (kept_tensors == 0 ? O_TRUNC : 0);
  const int file = ::open(partial.c_str(), flags, 0644);
  if (file < 0) return FileError(partial, "open for writing");
  std::unique_ptr<SafetensorsWriter> writer(new SafetensorsWriter(path, file));
  const std::string header = SafetensorsHeaderBytes(tensors);
  for (size_t i = 0; i < tensors.size(); ++i) {
    writer->data_bytes_ += StoredBytes(tensors[i]);
    if (static_cast<int64_t>(i) < kept_tensors) writer->written_bytes_ += StoredBytes(tensors[i]);
  }
  if (kept_tensors == 0) {
    ROSE_RETURN_IF_ERROR(
        WriteAll(file, partial, {reinterpret_cast<const uint8_t*>(header.data()), header.size()}));
    return writer;
  }
  const int64_t kept_bytes = static_cast<int64_t>(header.size()) + writer->written_bytes_;
  if (!BeginsWith(file, header, kept_bytes))
    return InvalidArgument(partial, ": is not the beginning of the file to be written");
  if (::ftruncate(file, kept_bytes) != 0 || ::lseek(file, kept_bytes, SEEK_SET) < 0)
    return FileError(partial, "cut");
  return writer;
}

SafetensorsWriter::~SafetensorsWriter() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(PartialName(path_).c_str());
}

Status SafetensorsWriter::Append(std::span<const uint8_t> bytes) {
  written_bytes_ += static_cast<int64_t>(bytes.size());
  ROSE_CHECK_LE(written_bytes_, data_bytes_);
  return WriteAll(file_, PartialName(path_), bytes);
}

Status SafetensorsWriter::Sync() {
  if (::fdatasync(file_) != 0) return FileError(PartialName(path_), "write");
  return Status();
}

Status SafetensorsWriter::Finish() {
  ROSE_CHECK_EQ(written_bytes_, data_bytes_);
  ROSE_RETURN_IF_ERROR(Sync());
  if (::rename(PartialName(path_).c_str(), path_.c_str()) != 0) return FileError(path_, "rename");
  ::close(file_);
  file_ = -1;
  return Status();
}

}  // namespace rose
