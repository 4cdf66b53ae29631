// Writes JSON piece by piece: commas and escapes are its business, nesting is the caller's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rose {

class JsonWriter {
 public:
  // Appends to `out`, which outlives the writer.
  explicit JsonWriter(std::string& out) : out_(out) {}

  JsonWriter& BeginObject() { return Open('{'); }
  JsonWriter& EndObject() { return Close('}'); }
  JsonWriter& BeginArray() { return Open('['); }
  JsonWriter& EndArray() { return Close(']'); }
  JsonWriter& Key(std::string_view name);
  JsonWriter& String(std::string_view text);
  JsonWriter& Integer(int64_t value);
  // Must be finite.
  JsonWriter& Float(float value);
  JsonWriter& Bool(bool value) { return Raw(value ? "true" : "false"); }
  JsonWriter& Integers(const std::vector<int32_t>& values);
  JsonWriter& Null() { return Raw("null"); }
  // A value that is JSON already.
  JsonWriter& Raw(std::string_view json);
  // Null for an empty text.
  JsonWriter& StringOrNull(std::string_view text) { return text.empty() ? Null() : String(text); }

 private:
  JsonWriter& Open(char bracket);
  JsonWriter& Close(char bracket);
  void Separate();

  std::string& out_;
  bool first_ = true;  // nothing stands in the open bracket yet, or a key just did
};

}  // namespace rose
