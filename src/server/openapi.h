// The description of the API in OpenAPI's form, docs/openapi.json, carried within the program.
#pragma once

#include <string_view>

namespace rose {

std::string_view OpenApiText();

}  // namespace rose
