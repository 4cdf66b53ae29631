// JSON as Python's json.dumps writes it, which chat templates show to models as `tojson`.
#pragma once

#include <string>

#include "base/json.h"

namespace rose {

// With blanks after ',' and ':', characters beyond ASCII as they are, integers of any length as
// written and other numbers in Python's shortest form.
std::string PythonJson(const JsonValue& value);

}  // namespace rose
