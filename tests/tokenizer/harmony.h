// The built-in tokenizer, loaded once for all tests of a process, and files of cases.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "tokenizer/tokenizer.h"

namespace rose {

inline const Tokenizer& Harmony() {
  static const std::unique_ptr<Tokenizer> tokenizer = BuiltInTokenizer("o200k_harmony").value();
  return *tokenizer;
}

// The objects of a file with one a line.
inline std::vector<JsonValue> ReadLines(const std::string& name) {
  std::ifstream file(ROSE_SOURCE_DIR "/tests/data/tokenizer/" + name);
  EXPECT_TRUE(file) << name;
  std::vector<JsonValue> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(ParseJson(line).value());
  return lines;
}

inline std::vector<int32_t> Ids(const JsonValue& list) {
  std::vector<int32_t> ids;
  for (const JsonValue& id : *list.array()) ids.push_back(static_cast<int32_t>(*id.AsInteger()));
  return ids;
}

}  // namespace rose
