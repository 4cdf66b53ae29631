// Numbers of a schema as the reference prints them: not always the nearest double.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace rose {

// Integers of 64 bits as they are. Any other number is read as the reference's JSON library reads
// it (serde_json without exact floats: the digits as an integer of 64 bits, those beyond it
// dropped, times or over powers of ten one after the other, each product rounded) and printed as
// the shortest text that means the result. None if it is beyond the range of a double. `text` is
// valid JSON.
std::optional<std::string> ReferenceNumber(std::string_view text);

// `value` with every number as above. None if one of them has none.
std::optional<JsonValue> WithReferenceNumbers(const JsonValue& value);

}  // namespace rose
