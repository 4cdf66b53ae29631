// JSON Schema as TypeScript-like type text, the way the model was shown function parameters.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"

namespace rose {

// The text exact with the reference (spec D.6). Total over schemas: what it does not know is `any`.
// The only error is a default whose number no double can hold.
Result<std::string> SchemaToType(const JsonValue& schema);

}  // namespace rose
