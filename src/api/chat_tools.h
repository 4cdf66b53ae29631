// Tools, tool_choice and the format of the answer, of all endpoints that talk (spec E.3, E.8). What
// describes a function or a schema may stand in the object itself, as the Responses API has it, or
// one level down in "function" or "json_schema", as Chat Completions has it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/field_reader.h"
#include "chat/chat_format.h"

namespace rose {

// A function of a namespace, which only the Responses API has.
struct ToolName {
  std::string space;  // empty = none
  std::string name;
};

// The name under which the model knows it: "SPACE__NAME".
std::string FlatName(const ToolName& name);

// What may stand in a list of tools beside functions.
enum class ToolKinds {
  kFunctions,
  // Namespaces of functions; and web_search, which clients offer unasked and which runs where the
  // model runs: it is left out.
  kOfResponses,
};

struct ToolFields {
  std::vector<ToolSpec> tools;  // what the model is shown: none under tool_choice "none"
  bool calls_allowed = false;
  bool call_required = false;                  // by "required"
  std::string only_call;                       // the function that must be called; empty = none
  std::vector<std::string> callable;           // those that may be called; empty = all
  std::map<std::string, ToolName> namespaced;  // by the name that the model knows
};

// All tools are shown to the model, whichever it must or may call.
ToolFields ReadTools(const JsonValue& body, std::optional<ApiError>& error,
                     ToolKinds kinds = ToolKinds::kFunctions);

// Whether it is left out of a list of kOfResponses.
bool IsLeftOut(const JsonValue& tool);

// The field `name` ("response_format"). "text" is none. A schema is shown to the model, not
// enforced.
std::optional<ResponseFormat> ReadResponseFormat(FieldReader& fields, std::string_view name,
                                                 std::optional<ApiError>& error);

}  // namespace rose
