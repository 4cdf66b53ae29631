#include "chat/harmony_number.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>

namespace rose {
namespace {

// Digits and exponent, read as far as they fit.
class NumberReader {
 public:
  explicit NumberReader(std::string_view text) : text_(text) {}

  // The absolute value; none if it is too large.
  std::optional<double> Read() {
    Digits(0);
    if (Accept('.')) Digits(-1);
    if (Accept('e') || Accept('E')) ReadExponent();
    if (beyond_) {
      if (significand_ != 0 && exponent_ > 0) return std::nullopt;
      return 0.0;
    }
    return Scale();
  }

 private:
  bool Accept(char c) {
    if (pos_ == text_.size() || text_[pos_] != c) return false;
    ++pos_;
    return true;
  }
  bool IsDigit() const { return pos_ < text_.size() && text_[pos_] >= '0' && text_[pos_] <= '9'; }

  // `shift`: what a digit that is taken adds to the exponent, 0 before the point and -1 behind it.
  // A digit that is dropped adds 1 to that.
  void Digits(int shift) {
    constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
    bool full = false;
    for (; IsDigit(); ++pos_) {
      const auto digit = static_cast<uint64_t>(text_[pos_] - '0');
      full = full || significand_ > (kMax - digit) / 10;
      if (!full) significand_ = significand_ * 10 + digit;
      exponent_ += full ? shift + 1 : shift;
    }
  }

  void ReadExponent() {
    const bool negative = Accept('-');
    if (!negative) Accept('+');
    int64_t value = 0;
    for (; IsDigit(); ++pos_) {
      value = value * 10 + (text_[pos_] - '0');
      if (value > std::numeric_limits<int32_t>::max()) {
        beyond_ = true;
        exponent_ = negative ? -1 : 1;
        return;
      }
    }
    exponent_ += negative ? -value : value;
  }

  static double PowerOfTen(int64_t exponent) {
    const std::string text = "1e" + std::to_string(exponent);
    double value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  }

  std::optional<double> Scale() const {
    constexpr int64_t kLargest = 308;
    auto value = static_cast<double>(significand_);
    int64_t exponent = exponent_;
    for (; exponent < -kLargest && value != 0; exponent += kLargest) value /= 1e308;
    if (exponent < -kLargest) return 0.0;
    if (exponent > kLargest) return value == 0 ? std::optional(0.0) : std::nullopt;
    value = exponent < 0 ? value / PowerOfTen(-exponent) : value * PowerOfTen(exponent);
    return std::isinf(value) ? std::nullopt : std::optional(value);
  }

  std::string_view text_;
  size_t pos_ = 0;
  uint64_t significand_ = 0;
  int64_t exponent_ = 0;
  bool beyond_ = false;  // the exponent's digits alone are beyond 32 bits
};

}  // namespace

std::optional<std::string> ReferenceNumber(std::string_view text) {
  if (text.find_first_of(".eE") == text.npos && text.size() <= 20) {
    // Integers of 64 bits, and -0.
    auto canonical = CanonicalNumber(text);
    if (canonical == text || text == "-0") return canonical;
  }
  const bool negative = text.starts_with('-');
  const auto value = NumberReader(text.substr(negative ? 1 : 0)).Read();
  if (!value) return std::nullopt;
  return ShortestDouble(negative ? -*value : *value);
}

// Recursion is bounded by the depth that the JSON reader allowed.
std::optional<JsonValue> WithReferenceNumbers(const JsonValue& value) {
  if (const auto* number = value.number()) {
    auto text = ReferenceNumber(number->text);
    if (!text) return std::nullopt;
    return JsonValue(JsonValue::Number{std::move(*text)});
  }
  if (const auto* items = value.array()) {
    JsonValue::Array out;
    for (const JsonValue& item : *items) {
      auto read = WithReferenceNumbers(item);
      if (!read) return std::nullopt;
      out.push_back(std::move(*read));
    }
    return JsonValue(std::move(out));
  }
  if (const auto* members = value.object()) {
    JsonValue::Object out;
    for (const auto& [key, member] : *members) {
      auto read = WithReferenceNumbers(member);
      if (!read) return std::nullopt;
      out.emplace_back(key, std::move(*read));
    }
    return JsonValue(std::move(out));
  }
  return value;
}

}  // namespace rose
