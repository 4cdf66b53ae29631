// How many properties of a JSON Schema may come next at one place of a text, which is what the
// grammar library bounds there.
#pragma once

#include "base/json.h"
#include "base/status.h"

namespace rose {

// The library stops at 500 or a little above.
inline constexpr int64_t kMaxNextProperties = 480;

// kInvalidArgument for a schema with an object in which more properties may come next: those that
// follow each other and are not required, up to the next required one. Where objects are combined
// or one of several may come (anyOf, oneOf, allOf, $ref) their openings are added up; what is left
// of them further on is not, since it depends on the text.
Status CheckSchemaWidth(const JsonValue& schema);

}  // namespace rose
