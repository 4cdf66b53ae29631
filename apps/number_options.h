// Whole numbers on the command line, read strictly: the option library takes "" for 0 and wraps
// what does not fit.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace rose {

// All of `text` as a number from `low` to `high`; throws CLI11's error, which names the option.
template <typename Int>
Int StrictNumber(const std::string& option, std::string_view text, Int low, Int high) {
  Int value = 0;
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || last != end || value < low || value > high) {
    throw CLI::ValidationError(option,
                               StrCat("'", text, "' is no whole number from ", low, " to ", high));
  }
  return value;
}

// "1,2,3", also in several words. At least one number; none may be negative.
template <typename Int>
CLI::Option* AddNumberList(CLI::App& command, const std::string& option, std::vector<Int>& out,
                           const std::string& description) {
  const auto read = [option, &out](const std::vector<std::string>& words) {
    out.clear();
    for (std::string_view rest : words) {
      for (;;) {
        const size_t comma = rest.find(',');
        out.push_back(
            StrictNumber<Int>(option, rest.substr(0, comma), 0, std::numeric_limits<Int>::max()));
        if (comma == rest.npos) break;
        rest.remove_prefix(comma + 1);
      }
    }
  };
  return command.add_option_function<std::vector<std::string>>(option, read, description)
      ->type_name("INT,INT...");
}

// --seed; the API takes the same numbers.
inline CLI::Option* AddSeed(CLI::App& command, std::optional<uint64_t>& out) {
  const auto read = [&out](const std::string& text) {
    out = static_cast<uint64_t>(
        StrictNumber<int64_t>("--seed", text, 0, std::numeric_limits<int64_t>::max()));
  };
  return command
      .add_option_function<std::string>("--seed", read, "The same seed gives the same answer")
      ->type_name("INT");
}

}  // namespace rose
