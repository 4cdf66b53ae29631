#include "api/context.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <random>

namespace rose {

std::string RandomHex() {
  constexpr char kDigits[] = "0123456789abcdef";
  std::random_device source;  // the operating system's, which needs no seed
  std::string out;
  for (int word = 0; word < 4; ++word) {
    uint32_t bits = source();
    for (int i = 0; i < 8; ++i, bits >>= 4) out += kDigits[bits & 15];
  }
  return out;
}

std::string UtcDate(int64_t unix_seconds) {
  const std::chrono::sys_seconds time{std::chrono::seconds(unix_seconds)};
  const std::chrono::year_month_day day(std::chrono::floor<std::chrono::days>(time));
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02u", static_cast<int>(day.year()),
                static_cast<unsigned>(day.month()), static_cast<unsigned>(day.day()));
  return text.data();
}

std::string ApiContext::NewId(std::string_view prefix) const {
  return std::string(prefix) + (new_id ? new_id() : RandomHex());
}

}  // namespace rose
