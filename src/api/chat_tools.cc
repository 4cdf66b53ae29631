#include "api/chat_tools.h"

#include <algorithm>
#include <set>

namespace rose {
namespace {

constexpr size_t kMaxTools = 1024;
constexpr size_t kMaxName = 256;

// Harmony's headers end a name at a blank or a '<', so the model could never call such a function.
bool IsCallable(std::string_view name) {
  return !name.empty() && name.size() <= kMaxName &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return c > ' ' && c != 0x7f && c != '<'; });
}

ToolSpec ReadTool(const JsonValue& json, const std::string& path, std::optional<ApiError>& error) {
  ToolSpec spec;
  FieldReader tool(json, path, error);
  if (error) return spec;
  const std::string type = tool.String("type", "function");
  if (type != "function") {
    tool.Fail("type", StrCat("is \"", type, "\", but only \"function\" is supported"));
    return spec;
  }
  const JsonValue* inner = tool.Get("function");
  if (!inner && !tool.Get("name")) {
    tool.Fail("function", "is missing");
    return spec;
  }
  FieldReader function(inner ? *inner : json, inner ? tool.PathOf("function") : path, error);
  if (error) return spec;
  spec.name = function.String("name");
  if (!IsCallable(spec.name))
    function.Fail("name", "must be a text of 1 to 256 bytes without blanks and '<'");
  spec.description = function.String("description");
  spec.strict = function.Bool("strict", false);
  const JsonValue* parameters = function.Get("parameters");
  if (parameters && !parameters->object())
    function.Fail("parameters", "must be an object, a JSON Schema");
  if (parameters) spec.parameters = *parameters;
  return spec;
}

// The declared function that tool_choice, or an entry of its allowed tools, names.
std::string ReadToolName(const JsonValue& json, const std::string& path, const ToolFields& fields,
                         std::optional<ApiError>& error) {
  FieldReader entry(json, path, error);
  if (error) return "";
  const std::string type = entry.String("type", "function");
  if (type != "function") {
    entry.Fail("type", StrCat("is \"", type, "\", but only \"function\" is supported"));
    return "";
  }
  const JsonValue* inner = entry.Get("function");
  FieldReader function(inner ? *inner : json, inner ? entry.PathOf("function") : path, error);
  if (error) return "";
  std::string name = function.String("name");
  if (std::ranges::find(fields.tools, name, &ToolSpec::name) == fields.tools.end())
    function.Fail("name", StrCat("\"", name, "\" is not among the tools"));
  return name;
}

// {"type": "allowed_tools", "mode", "tools"}, where Chat Completions has mode and tools one level
// down: calls of these tools and of no other.
void ReadAllowedTools(FieldReader& choice, const JsonValue& json, ToolFields& fields,
                      std::optional<ApiError>& error) {
  const JsonValue* inner = choice.Get("allowed_tools");
  FieldReader allowed(inner ? *inner : json, inner ? choice.PathOf("allowed_tools") : "tool_choice",
                      error);
  if (error) return;
  const std::string mode = allowed.String("mode");
  if (mode != "auto" && mode != "required")
    allowed.Fail("mode", "must be \"auto\" or \"required\"");
  fields.call_required = mode == "required";
  const auto* tools = allowed.Array("tools");
  if (!tools || tools->empty()) return allowed.Fail("tools", "must name at least one tool");
  for (size_t i = 0; i < tools->size() && !error; ++i)
    fields.callable.push_back(
        ReadToolName((*tools)[i], StrCat(allowed.PathOf("tools"), "[", i, "]"), fields, error));
}

// Whether the model may call, given that there are tools.
bool ReadChoice(FieldReader& request, ToolFields& fields, std::optional<ApiError>& error) {
  const JsonValue* choice = request.Get("tool_choice");
  if (!choice || (choice->object() && choice->object()->empty())) return true;
  const std::string* word = choice->string();
  if (word && *word == "none") return false;
  if (word && *word != "auto" && *word != "required") {
    request.Fail("tool_choice",
                 "must be \"none\", \"auto\", \"required\", a function or allowed_tools");
    return false;
  }
  if (fields.tools.empty() && !(word && *word == "auto" && request.Get("tools"))) {
    request.Fail("tool_choice", "is only allowed together with tools");
    return false;
  }
  fields.call_required = word && *word == "required";
  if (word) return true;
  FieldReader named(*choice, "tool_choice", error);
  if (error) return false;
  if (named.String("type") == "allowed_tools")
    ReadAllowedTools(named, *choice, fields, error);
  else
    fields.only_call = ReadToolName(*choice, "tool_choice", fields, error);
  return true;
}

}  // namespace

ToolFields ReadTools(const JsonValue& body, std::optional<ApiError>& error) {
  ToolFields fields;
  FieldReader request(body, "", error);
  const auto* tools = request.Array("tools");
  if (tools && tools->size() > kMaxTools) request.Fail("tools", "has more than 1024 entries");
  std::set<std::string> names;
  for (size_t i = 0; tools && i < tools->size() && !error; ++i) {
    fields.tools.push_back(ReadTool((*tools)[i], StrCat("tools[", i, "]"), error));
    const std::string& name = fields.tools.back().name;
    if (!names.insert(name).second)
      request.Fail(StrCat("tools[", i, "].function.name"),
                   StrCat("\"", name, "\" is the name of an earlier tool"));
  }
  const bool allowed = ReadChoice(request, fields, error);
  if (!allowed) fields.tools.clear();
  fields.calls_allowed = allowed && !fields.tools.empty();
  return fields;
}

std::optional<ResponseFormat> ReadResponseFormat(FieldReader& fields, std::string_view name,
                                                 std::optional<ApiError>& error) {
  const JsonValue* json = fields.Get(name);
  if (!json || (json->object() && json->object()->empty())) return std::nullopt;
  FieldReader format(*json, fields.PathOf(name), error);
  if (error) return std::nullopt;
  const std::string type = format.String("type");
  if (type == "text" || type == "json_object") format.RefuseOthers({"type"});
  if (type == "text") return std::nullopt;
  if (type == "json_object") return ResponseFormat{"json_object", "", R"({"type":"object"})"};
  if (type != "json_schema") {
    format.Fail("type", "must be \"text\", \"json_object\" or \"json_schema\"");
    return std::nullopt;
  }
  const JsonValue* inner = format.Get("json_schema");
  if (!inner && !format.Get("schema")) {
    format.Fail("json_schema", "is missing");
    return std::nullopt;
  }
  FieldReader schema(inner ? *inner : *json,
                     inner ? format.PathOf("json_schema") : fields.PathOf(name), error);
  if (error) return std::nullopt;
  if (inner) format.RefuseOthers({"type", "json_schema"});
  if (inner) schema.RefuseOthers({"name", "description", "schema", "strict"});
  if (!inner) format.RefuseOthers({"type", "name", "description", "schema", "strict"});
  schema.Bool("strict", false);
  ResponseFormat out{schema.String("name", "response"), schema.String("description"), ""};
  const JsonValue* value = schema.Get("schema");
  if (!value || !value->object()) {
    schema.Fail("schema", "must be an object, a JSON Schema");
    return std::nullopt;
  }
  out.schema_json = WriteJson(*value);
  return out;
}

}  // namespace rose
