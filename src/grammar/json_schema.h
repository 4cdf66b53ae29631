// JSON Schemas as clients send them, checked and made fit for the grammar library.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"

namespace rose {

// Bounds of a schema, checked before anything looks at it.
inline constexpr int kMaxSchemaDepth = 64;             // nested arrays and objects
inline constexpr int64_t kMaxSchemaBytes = 256 << 10;  // of its text
inline constexpr int64_t kMaxSchemaRefs = 1000;        // "$ref" members
inline constexpr int64_t kMaxSchemaProperties = 3000;  // of all objects; compiling an object takes
inline constexpr int64_t kMaxObjectProperties = 1000;  // the square of its own
inline constexpr int64_t kMaxSchemaMinimum = 100'000;  // of "minItems" and the like

// The schema that the grammar is made of. What it accepts, the given one accepts:
// - whitespace between values is one space, or a line break and an indentation of at most 32;
// - an object that lists its properties has no others, unless "additionalProperties" or a combining
//   keyword says something about them;
// - an excluded bound of a number is one that is included, a millionth or less within;
// - a "format" that is not known says nothing, as JSON Schema has it;
// - tuples of older drafts ("items" with a list) are written as those of the last one;
// - the branches of a "oneOf" that are references are copied, so that they can be told apart.
// kInvalidArgument for text that is no JSON, for a schema beyond the bounds, for a reference that
// is not within the document or leads to itself, for objects too wide (CheckSchemaWidth).
Result<std::string> PrepareJsonSchema(std::string_view text);

// The value that a reference such as "#/a/b/0" names within the document, or nullptr.
const JsonValue* ResolveReference(const JsonValue& root, std::string_view reference);

}  // namespace rose
