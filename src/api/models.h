// GET /v1/models and /v1/models/{name} (spec E.2).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "api/context.h"
#include "api/error.h"

namespace rose {

// The list of served names. `created` in Unix seconds, the same for the life of the server.
std::string ModelsBody(const ApiContext& context, int64_t created);
// One entry; a name that is not served is a 404. `name` is already percent-decoded.
std::variant<std::string, ApiError> ModelBody(const ApiContext& context, std::string_view name,
                                              int64_t created);

}  // namespace rose
