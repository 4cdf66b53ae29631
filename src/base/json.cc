#include "base/json.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/utf8.h"

namespace rose {
namespace {

template <typename Int>
std::optional<Int> WholeInteger(std::string_view text) {
  Int value = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || end != last) return std::nullopt;
  return value;
}

// The nearest double; infinite beyond the range, zero below it.
double ToDouble(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // from_chars does not say on which side the range was left.
  if (error == std::errc::result_out_of_range) return std::strtod(text.c_str(), nullptr);
  return value;
}

}  // namespace

std::optional<double> JsonValue::AsDouble() const {
  const Number* n = number();
  if (!n) return std::nullopt;
  const double value = ToDouble(n->text);
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::optional<int64_t> JsonValue::AsInteger() const {
  const Number* n = number();
  if (!n) return std::nullopt;
  if (const auto exact = WholeInteger<int64_t>(n->text)) return exact;
  if (n->text.find_first_of(".eE") == std::string::npos) return std::nullopt;  // too large
  const double value = ToDouble(n->text);
  constexpr double kExact = 9007199254740992.0;  // 2^53: up to here a double holds every integer
  if (value != std::trunc(value) || std::abs(value) > kExact) return std::nullopt;
  return static_cast<int64_t>(value);
}

const JsonValue* JsonValue::Find(std::string_view key) const {
  const Object* members = object();
  if (!members) return nullptr;
  for (const auto& [name, value] : *members)
    if (name == key) return &value;
  return nullptr;
}

void AppendJsonString(std::string& out, std::string_view text) {
  constexpr std::string_view kSpecial = "\"\\\b\f\n\r\t", kShort = "\"\\bfnrt";
  constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  size_t start = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned char c = text[i];
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    out += text.substr(start, i - start);
    start = i + 1;
    out += '\\';
    if (const size_t k = kSpecial.find(static_cast<char>(c)); k != kSpecial.npos) {
      out += kShort[k];
    } else {
      out += "u00";
      out += kHex[c >> 4];
      out += kHex[c & 15];
    }
  }
  out += text.substr(start);
  out += '"';
}

std::string AsciiJson(std::string_view json) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  const auto unit = [&](uint32_t value) {
    out += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) out += kHex[value >> shift & 15];
  };
  for (int64_t pos = 0; pos < static_cast<int64_t>(json.size());) {
    const Utf8Char next = DecodeUtf8(json, pos);
    const uint32_t c = next.code_point;
    if (c >= 0x10000) {
      unit(0xd800 + ((c - 0x10000) >> 10));
      unit(0xdc00 + ((c - 0x10000) & 0x3ff));
    } else if (c >= 0x7f) {
      unit(c);
    } else {
      out += static_cast<char>(c);
    }
    pos += next.length;
  }
  return out;
}

std::optional<std::string> CanonicalNumber(std::string_view text) {
  if (text != "-0" && (WholeInteger<int64_t>(text) || WholeInteger<uint64_t>(text)))
    return std::string(text);
  const double value = ToDouble(std::string(text));
  return std::isfinite(value) ? std::optional(ShortestDouble(value)) : std::nullopt;
}

std::string ShortestDouble(double value) {
  if (value == 0) return std::signbit(value) ? "-0.0" : "0.0";

  // Shortest digits d1d2... and the exponent of 0.d1d2... x 10^point.
  char buffer[32] = {};  // zeros, so that the exponent ends
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, std::abs(value), std::chars_format::scientific)
          .ptr;
  const std::string_view scientific(buffer, end - buffer);
  const size_t e = scientific.find('e');
  std::string digits(1, scientific[0]);
  if (e > 2) digits += scientific.substr(2, e - 2);
  const int point = std::atoi(buffer + e + 1) + 1;
  const int count = static_cast<int>(digits.size());

  std::string out = value < 0 ? "-" : "";
  if (point <= -5 || point > 16) {
    out += digits[0];
    if (count > 1) out += "." + digits.substr(1);
    return out + "e" + std::to_string(point - 1);
  }
  if (point <= 0) return out + "0." + std::string(-point, '0') + digits;
  if (point >= count) return out + digits + std::string(point - count, '0') + ".0";
  return out + digits.substr(0, point) + "." + digits.substr(point);
}

// Recursion is bounded by the depth that the reader allowed.
void AppendJson(std::string& out, const JsonValue& value) {
  if (value.is_null()) {
    out += "null";
  } else if (const bool* boolean = value.boolean()) {
    out += *boolean ? "true" : "false";
  } else if (const auto* number = value.number()) {
    out += CanonicalNumber(number->text).value_or(number->text);
  } else if (const std::string* text = value.string()) {
    AppendJsonString(out, *text);
  } else if (const auto* items = value.array()) {
    out += '[';
    for (size_t i = 0; i < items->size(); ++i) {
      if (i > 0) out += ',';
      AppendJson(out, (*items)[i]);
    }
    out += ']';
  } else {
    out += '{';
    bool first = true;
    for (const auto& [key, member] : *value.object()) {
      if (!first) out += ',';
      first = false;
      AppendJsonString(out, key);
      out += ':';
      AppendJson(out, member);
    }
    out += '}';
  }
}

std::string WriteJson(const JsonValue& value) {
  std::string out;
  AppendJson(out, value);
  return out;
}

}  // namespace rose
