#include "chat/call_json.h"

#include <utility>

#include "base/json.h"

namespace rose {
namespace {

bool IsBlank(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

// The value of what stands between quotes, or as it is if it is no JSON.
std::string Unquoted(const std::string& raw) {
  const auto value = ParseJson("\"" + raw + "\"");
  return value.ok() && value->string() ? *value->string() : raw;
}

}  // namespace

void CallJson::Push(std::string_view text) {
  if (state_ != State::kNamed) text_ += text;
  for (const char c : text) {
    if (state_ == State::kBroken) return;
    while (!Read(c)) {
    }
  }
}

std::string CallJson::TakeArguments() {
  return std::exchange(arguments_, {});
}

bool CallJson::Read(char c) {
  switch (place_) {
    case Place::kStart:
      if (c == '{') {
        place_ = Place::kKey;
      } else if (!IsBlank(c)) {
        Break();
      }
      return true;
    case Place::kKey:
      if (c == '"') {
        key_.clear();
        place_ = Place::kInKey;
      } else if (c != ',' && !IsBlank(c)) {
        Break();
      }
      return true;
    case Place::kInKey:
      if (InString(c, &key_)) place_ = Place::kColon;
      return true;
    case Place::kColon:
      if (c == ':') {
        place_ = Place::kValue;
      } else if (!IsBlank(c)) {
        Break();
      }
      return true;
    case Place::kValue:
      if (IsBlank(c)) return true;
      BeginValue(c);
      return state_ == State::kBroken || place_ == Place::kInName;
    case Place::kInName:
      if (InString(c, &name_)) EndName();
      return true;
    case Place::kInValue:
      return ReadValue(c);
    case Place::kAfterValue:
      if (c == ',') {
        place_ = Place::kKey;
      } else if (!IsBlank(c)) {
        Break();
      }
      return true;
    case Place::kEnd:
      return true;
  }
  return true;
}

// Also the end of the object, after which a call without a name is none.
void CallJson::Break() {
  if (state_ == State::kUnnamed) state_ = State::kBroken;
  place_ = Place::kEnd;
}

void CallJson::BeginValue(char c) {
  const std::string key = Unquoted(key_);
  if (key == "name" && state_ == State::kUnnamed) {
    if (c != '"') return Break();
    place_ = Place::kInName;
    return;
  }
  keeps_value_ = key == "arguments" && !has_arguments_;
  has_arguments_ = has_arguments_ || keeps_value_;
  place_ = Place::kInValue;
  is_scalar_ = c != '{' && c != '[' && c != '"';
  depth_ = 0;
}

bool CallJson::ReadValue(char c) {
  if (is_scalar_ && (c == ',' || c == '}' || IsBlank(c))) {
    place_ = Place::kAfterValue;
    return false;
  }
  if (keeps_value_) arguments_ += c;
  if (is_scalar_) return true;
  if (in_string_) {
    in_string_ = !InString(c, nullptr);
  } else if (c == '"') {
    in_string_ = true;
  } else if (c == '{' || c == '[') {
    ++depth_;
  } else if (c == '}' || c == ']') {
    --depth_;
  }
  if (depth_ <= 0 && !in_string_) place_ = Place::kAfterValue;
  return true;
}

void CallJson::EndName() {
  name_ = Unquoted(name_);
  if (name_.empty()) return Break();
  state_ = State::kNamed;
  place_ = Place::kAfterValue;
}

// Within a string: true at the quote that ends it. `out` gets what stands before it, as written.
bool CallJson::InString(char c, std::string* out) {
  if (c == '"' && !is_escaped_) return true;
  is_escaped_ = c == '\\' && !is_escaped_;
  if (out) *out += c;
  return false;
}

}  // namespace rose
