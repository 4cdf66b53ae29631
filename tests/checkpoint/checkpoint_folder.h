// Made-up checkpoint folders for tests: written to a temporary place, removed at the end.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "gtest/gtest.h"

namespace rose {

inline void WriteText(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// Header length and header text, then `data`.
inline std::string RawSafetensors(const std::string& header, const std::string& data) {
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(uint64_t{header.size()} >> (8 * i));
  return bytes + header + data;
}

class CheckpointFolder {
 public:
  CheckpointFolder() {
    char pattern[] = "/tmp/rose-checkpoint-XXXXXX";
    path_ = ::mkdtemp(pattern);
    WriteText(path_ + "/config.json", "{}");
  }
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;
  ~CheckpointFolder() { std::filesystem::remove_all(path_); }

  const std::string& path() const { return path_; }

  void Write(const std::string& file, const std::string& text) const {
    WriteText(path_ + "/" + file, text);
  }

  // Adds a tensor to those of the next Save.
  template <typename T>
  void Add(const std::string& name, DType dtype, std::vector<int64_t> shape,
           const std::vector<T>& values) {
    tensors_.push_back({name, dtype, std::move(shape)});
    EXPECT_EQ(StoredBytes(tensors_.back()), static_cast<int64_t>(values.size() * sizeof(T)))
        << name;
    data_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }

  void Save(const std::string& file = "model.safetensors") {
    Write(file, SafetensorsHeaderBytes(tensors_) + data_);
    tensors_.clear();
    data_.clear();
  }

 private:
  std::string path_;
  std::vector<StoredTensor> tensors_;
  std::string data_;
};

// bf16 numbers that all differ: first, first + 1, ... as bit patterns of small values.
inline std::vector<Bf16> Bf16Ramp(int64_t count, int first = 0) {
  std::vector<Bf16> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = ToBf16(static_cast<float>((first + i) % 251));
  return values;
}

}  // namespace rose
