#include "chat/python_json.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

namespace rose {
namespace {

// repr(float): digits as in ShortestDouble, but with an exponent below 1e-4 and of two digits.
std::string PythonFloat(const std::string& text) {
  const double value = std::strtod(text.c_str(), nullptr);
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  const std::string out = ShortestDouble(value);
  const double size = std::abs(value);
  if (size > 0 && size < 1e-4) {
    char buffer[32];
    const auto end =
        std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
    return std::string(buffer, end);
  }
  const size_t e = out.find('e');
  return e == out.npos ? out : out.substr(0, e) + "e+" + out.substr(e + 1);
}

std::string PythonNumber(const std::string& text) {
  const bool is_float = text.find_first_of(".eE") != text.npos;
  if (is_float) return PythonFloat(text);
  return text == "-0" ? "0" : text;
}

// Recursion is bounded by the depth that the reader allowed.
void Append(std::string& out, const JsonValue& value) {
  if (const auto* number = value.number()) {
    out += PythonNumber(number->text);
  } else if (const auto* items = value.array()) {
    out += '[';
    for (size_t i = 0; i < items->size(); ++i) {
      if (i > 0) out += ", ";
      Append(out, (*items)[i]);
    }
    out += ']';
  } else if (const auto* members = value.object()) {
    out += '{';
    for (size_t i = 0; i < members->size(); ++i) {
      if (i > 0) out += ", ";
      AppendJsonString(out, (*members)[i].first);
      out += ": ";
      Append(out, (*members)[i].second);
    }
    out += '}';
  } else {
    AppendJson(out, value);
  }
}

}  // namespace

std::string PythonJson(const JsonValue& value) {
  std::string out;
  Append(out, value);
  return out;
}

}  // namespace rose
