// Whether a checkpoint has room where it is to be written.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace rose {

// kIo with both numbers if the file system of `folder` has less than `needed` bytes free.
Status CheckDiskSpace(const std::string& folder, int64_t needed);

}  // namespace rose
