// Writes a safetensors file piece by piece under a temporary name; it gets its own name when all of
// it is on the disk.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "quant/codec.h"

namespace rose {

class SafetensorsWriter {
 public:
  // Begins `path`, whose tensors will lie one after the other, with `path`.partial. With
  // kept_tensors > 0 it takes up a partial file again after that many; kInvalidArgument if the
  // partial file does not begin with this header and so many tensors.
  static Result<std::unique_ptr<SafetensorsWriter>> Create(const std::string& path,
                                                           const std::vector<StoredTensor>& tensors,
                                                           int64_t kept_tensors = 0);
  // Removes the partial file unless Finish was successful.
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  // The next bytes, in order, in pieces of any size. kIo when the file system says no (full disk).
  Status Append(std::span<const uint8_t> bytes);
  // Waits until what was appended is on the disk.
  Status Sync();
  // All tensors must be complete. Renames.
  Status Finish();

 private:
  SafetensorsWriter(std::string path, int file) : path_(std::move(path)), file_(file) {}

  std::string path_;
  int file_ = -1;
  int64_t data_bytes_ = 0;     // of all tensors
  int64_t written_bytes_ = 0;  // of data_bytes_
};

}  // namespace rose
