#include "api/json_writer.h"

#include <charconv>
#include <cmath>

#include "base/check.h"
#include "base/json.h"

namespace rose {

void JsonWriter::Separate() {
  if (!first_) out_ += ',';
  first_ = false;
}

JsonWriter& JsonWriter::Open(char bracket) {
  Separate();
  out_ += bracket;
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::Close(char bracket) {
  out_ += bracket;
  first_ = false;
  return *this;
}

JsonWriter& JsonWriter::Key(std::string_view name) {
  Separate();
  AppendJsonString(out_, name);
  out_ += ':';
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::String(std::string_view text) {
  Separate();
  AppendJsonString(out_, text);
  return *this;
}

JsonWriter& JsonWriter::Integer(int64_t value) {
  return Raw(std::to_string(value));
}

JsonWriter& JsonWriter::Integers(const std::vector<int32_t>& values) {
  BeginArray();
  for (const int32_t value : values) Integer(value);
  return EndArray();
}

JsonWriter& JsonWriter::Float(float value) {
  ROSE_CHECK(std::isfinite(value), "JSON has no ", value);
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return Raw({buffer, static_cast<size_t>(end - buffer)});
}

JsonWriter& JsonWriter::Raw(std::string_view json) {
  Separate();
  out_ += json;
  return *this;
}

}  // namespace rose
