#include "models/config_reader.h"

#include <cmath>

namespace rose {

ConfigReader::ConfigReader(const boost::json::object& object, std::string where)
    : object_(object), where_(std::move(where)) {}

const boost::json::value* ConfigReader::Find(std::string_view key) const {
  const auto* value = object_.if_contains(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

bool ConfigReader::Has(std::string_view key) const {
  return Find(key) != nullptr;
}

void ConfigReader::Fault(std::string_view key, std::string_view problem) {
  if (!status_.ok()) return;
  const auto* value = Find(key);
  const std::string shown = value ? boost::json::serialize(*value) : "missing";
  status_ =
      InvalidArgument("config.json: ", where_, key, " is ", shown.substr(0, 200), "; ", problem);
}

int64_t ConfigReader::Integer(std::string_view key, int64_t low, int64_t high) {
  const auto* value = Find(key);
  double number = 0;
  if (value != nullptr && value->is_number()) number = value->to_number<double>();
  // Whole numbers may be spelled 64.0; nothing here comes near 2^53.
  const bool whole = value != nullptr && value->is_number() && number == std::floor(number);
  if (!whole || number < static_cast<double>(low) || number > static_cast<double>(high)) {
    Fault(key, StrCat("expected a whole number from ", low, " to ", high));
    return low;
  }
  return static_cast<int64_t>(number);
}

int64_t ConfigReader::Integer(std::string_view key, std::string_view other, int64_t low,
                              int64_t high) {
  if (!Has(key)) return Has(other) ? Integer(other, low, high) : Integer(key, low, high);
  const int64_t value = Integer(key, low, high);
  if (Has(other) && Integer(other, low, high) != value) {
    Fault(other, StrCat("but ", key, " is ", value));
  }
  return value;
}

double ConfigReader::Positive(std::string_view key) {
  const auto* value = Find(key);
  const double number =
      value != nullptr && value->is_number() ? value->to_number<double>() : std::nan("");
  if (!(number > 0 && std::isfinite(number))) {
    Fault(key, "expected a number above 0");
    return 1;
  }
  return number;
}

double ConfigReader::Positive(std::string_view key, double otherwise) {
  return Has(key) ? Positive(key) : otherwise;
}

std::string ConfigReader::Text(std::string_view key, std::string_view otherwise) {
  const auto* value = Find(key);
  if (value == nullptr) return std::string(otherwise);
  if (!value->is_string()) {
    Fault(key, "expected a string");
    return std::string(otherwise);
  }
  return std::string(value->as_string());
}

bool ConfigReader::Flag(std::string_view key, bool otherwise) {
  const auto* value = Find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_bool()) {
    Fault(key, "expected true or false");
    return otherwise;
  }
  return value->as_bool();
}

void ConfigReader::Require(std::string_view key, const boost::json::value& expected,
                           std::string_view why) {
  const auto* value = Find(key);
  if (value != nullptr && *value != expected) {
    Fault(key, StrCat("only ", boost::json::serialize(expected), " is supported: ", why));
  }
}

void ConfigReader::Refuse(std::string_view key, std::string_view why) {
  if (Has(key)) Fault(key, why);
}

}  // namespace rose
