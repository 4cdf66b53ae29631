#include "api/field_reader.h"

#include <algorithm>

namespace rose {

const JsonValue* FieldReader::Get(std::string_view name) const {
  const JsonValue* value = object_.Find(name);
  return value && !value->is_null() ? value : nullptr;
}

bool FieldReader::Bool(std::string_view name, bool absent) {
  const JsonValue* value = Get(name);
  if (!value) return absent;
  if (value->boolean()) return *value->boolean();
  Fail(name, "must be true or false");
  return absent;
}

int64_t FieldReader::Integer(std::string_view name, int64_t absent, int64_t low, int64_t high) {
  const JsonValue* value = Get(name);
  if (!value) return absent;
  const auto integer = value->AsInteger();
  if (integer && *integer >= low && *integer <= high) return *integer;
  if (low == INT64_MIN && high == INT64_MAX) {
    Fail(name, "must be an integer of 64 bits");
  } else if (high == INT64_MAX) {
    Fail(name, StrCat("must be an integer of at least ", low));
  } else {
    Fail(name, StrCat("must be an integer between ", low, " and ", high));
  }
  return absent;
}

double FieldReader::Number(std::string_view name, double absent, double low, double high) {
  const JsonValue* value = Get(name);
  if (!value) return absent;
  const auto number = value->AsDouble();
  if (number && *number >= low && *number <= high) return *number;
  Fail(name, StrCat("must be a number between ", low, " and ", high));
  return absent;
}

std::string FieldReader::String(std::string_view name, std::string absent) {
  const JsonValue* value = Get(name);
  if (!value) return absent;
  if (value->string()) return *value->string();
  Fail(name, "must be a string");
  return absent;
}

const JsonValue::Array* FieldReader::Array(std::string_view name) {
  const JsonValue* value = Get(name);
  if (!value) return nullptr;
  if (!value->array()) Fail(name, "must be a list");
  return value->array();
}

void FieldReader::RefuseOthers(std::initializer_list<std::string_view> known) {
  if (object_.object() == nullptr) return;
  for (const auto& [name, value] : *object_.object()) {
    if (value.is_null() || std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::string names;
    for (const std::string_view other : known)
      names += StrCat(names.empty() ? "" : other == *(known.end() - 1) ? " and " : ", ", other);
    return Fail(name, StrCat("is not known; what may stand there is ", names));
  }
}

std::string FieldReader::PathOf(std::string_view name) const {
  return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
}

void FieldReader::FailAt(const std::string& path, std::string_view problem) {
  if (error_) return;
  error_ = ApiError{.message = StrCat(path.empty() ? "The request body" : path, " ", problem, "."),
                    .param = path};
}

}  // namespace rose
