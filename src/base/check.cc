#include "base/check.h"

namespace rose {

void FailCheck(const char* file, int line, const char* expression, const std::string& values) {
  throw CheckFailure(
      StrCat(file, ":", line, ": check failed: ", expression, values.empty() ? "" : ": ", values));
}

}  // namespace rose
