// JSON as the API and the chat formats need it: numbers keep their text and objects their order of
// keys, because both reach a prompt; depth and number of values are bounded, because anybody may
// send it. (Boost.JSON, which reads trusted files, rounds numbers and refuses lone surrogates.)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"

namespace rose {

class JsonValue {
 public:
  struct Number {
    std::string text;  // as it was written, valid by the JSON grammar
  };
  using Array = std::vector<JsonValue>;
  using Object = std::vector<std::pair<std::string, JsonValue>>;

  JsonValue() = default;  // null
  explicit JsonValue(bool value) : value_(value) {}
  explicit JsonValue(Number value) : value_(std::move(value)) {}
  explicit JsonValue(std::string value) : value_(std::move(value)) {}
  explicit JsonValue(Array value) : value_(std::move(value)) {}
  explicit JsonValue(Object value) : value_(std::move(value)) {}

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  // The value of a kind, or nullptr if it is of another kind.
  const bool* boolean() const { return std::get_if<bool>(&value_); }
  const Number* number() const { return std::get_if<Number>(&value_); }
  const std::string* string() const { return std::get_if<std::string>(&value_); }
  const Array* array() const { return std::get_if<Array>(&value_); }
  const Object* object() const { return std::get_if<Object>(&value_); }

  // A number within the range of a double.
  std::optional<double> AsDouble() const;
  // A number without a fractional part within int64; 5.0 and 5e0 are 5.
  std::optional<int64_t> AsInteger() const;
  // The member of an object; nullptr if there is none or this is no object.
  const JsonValue* Find(std::string_view key) const;

 private:
  std::variant<std::monostate, bool, Number, std::string, Array, Object> value_;
};

struct JsonLimits {
  int depth = 127;               // nested arrays and objects
  int64_t values = 1000 * 1000;  // all values of the document
};

// Reads one document (RFC 8259). A repeated key keeps its first place and its last value; a lone
// surrogate becomes U+FFFD. Errors say at which byte: bad syntax, NaN, invalid UTF-8, a limit.
Result<JsonValue> ParseJson(std::string_view text, const JsonLimits& limits = {});

// Appends `text` in quotes. Escapes only ", \ and controls below 0x20.
void AppendJsonString(std::string& out, std::string_view text);

// A JSON text with every character beyond ASCII as \uXXXX: what is one line stays one line for
// every reader, whatever it takes for a line end. `json` must be valid.
std::string AsciiJson(std::string_view json);

// A number in its shortest canonical form: integers of 64 bits as they are, others as the shortest
// double that reads back: 1.0, 0.00001, 1e-6, 1e16. Outside a double's range there is none.
std::optional<std::string> CanonicalNumber(std::string_view text);
// The same for a double, which must be finite.
std::string ShortestDouble(double value);

// Appends without blanks, numbers in canonical form (one out of range as it was written).
void AppendJson(std::string& out, const JsonValue& value);
std::string WriteJson(const JsonValue& value);

}  // namespace rose
