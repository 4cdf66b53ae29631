// Small files, whole.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace rose {

// The bytes of a file of at most `max_bytes`. kNotFound if there is none, kInvalidArgument if it is
// larger, kIo if it cannot be read.
Result<std::string> ReadFile(const std::string& path, int64_t max_bytes);

}  // namespace rose
