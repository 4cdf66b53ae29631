// Checks of option values that must say something. A shell makes "" of "$MODEL" where the variable
// is not set, and nobody who wrote that wants the default.
#pragma once

#include <string>

namespace rose {

// For CLI::Option::check: `complaint`, which says what is needed, if a value is empty.
inline auto NotEmpty(const char* complaint) {
  return
      [complaint](const std::string& value) { return std::string(value.empty() ? complaint : ""); };
}

inline auto NotEmptyModel() {
  return NotEmpty("a model is needed, and this is empty; leave it out for the default");
}

}  // namespace rose
