// A file mapped read-only into memory, whose pages are read when they are touched, and which can be
// read the plain way as well.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"

namespace rose {

class MappedFile {
 public:
  // kNotFound if there is no such file, kIo if it cannot be opened or mapped. An empty file is an
  // empty view. NOTE: a file that is cut short while it is mapped kills the reader (SIGBUS, see
  // EndWhereFilesAreCut); the converter therefore never writes in place.
  static Result<MappedFile> Open(const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::string& path() const { return path_; }
  std::span<const uint8_t> bytes() const { return {data_, static_cast<size_t>(size_)}; }
  // Copies what lies from `begin` on, without touching the mapping: from any thread. kIo if it
  // cannot be read, or if the file ends before.
  Status Read(int64_t begin, std::span<uint8_t> into) const;

 private:
  std::string path_;
  const uint8_t* data_ = nullptr;  // [size_], null if the file is empty
  int64_t size_ = 0;
  int fd_ = -1;
};

// From now on the process ends with exit code 1 and a sentence on stderr, not with a bare signal,
// when it reads a part of a mapped file that is no longer there.
void EndWhereFilesAreCut();

}  // namespace rose
