// One small GET, waited for.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "load/target.h"

namespace rose {

// The body of `path` below the target's prefix. kUnavailable if there is no answer within ten
// seconds, or one that is not 200.
Result<std::string> Fetch(const LoadTarget& target, std::string_view path);

// The first model that the server names.
Result<std::string> AskModel(const LoadTarget& target);

}  // namespace rose
