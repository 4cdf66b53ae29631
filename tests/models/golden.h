// Reads the records of reference implementations (tests/data/README.md).
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "checkpoint/safetensors.h"

namespace rose {

class Golden {
 public:
  explicit Golden(const std::string& path) : file_(MappedFile::Open(path).value()) {
    header_ = ParseSafetensors(file_.bytes()).value();
  }

  std::vector<float> Floats(const std::string& name) const {
    const SafetensorsEntry& entry = Find(name);
    ROSE_CHECK(entry.tensor.dtype == DType::kF32, name);
    std::vector<float> values((entry.end - entry.begin) / sizeof(float));
    std::memcpy(values.data(), file_.bytes().data() + entry.begin, entry.end - entry.begin);
    return values;
  }

  // I32 or I64.
  std::vector<int32_t> Integers(const std::string& name) const {
    const SafetensorsEntry& entry = Find(name);
    const uint8_t* data = file_.bytes().data() + entry.begin;
    const int64_t size = ElementBytes(entry.tensor.dtype);
    std::vector<int32_t> values((entry.end - entry.begin) / size);
    for (size_t i = 0; i < values.size(); ++i) {
      // Little endian and small: the low four bytes are the number.
      std::memcpy(&values[i], data + i * size, sizeof(int32_t));
    }
    return values;
  }

 private:
  const SafetensorsEntry& Find(const std::string& name) const {
    for (const SafetensorsEntry& entry : header_.entries) {
      if (entry.tensor.name == name) return entry;
    }
    ROSE_CHECK(false, "no record ", name);
  }

  MappedFile file_;
  SafetensorsHeader header_;
};

}  // namespace rose
