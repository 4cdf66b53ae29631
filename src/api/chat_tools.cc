#include "api/chat_tools.h"

#include <algorithm>
#include <set>

namespace rose {
namespace {

constexpr size_t kMaxTools = 1024;
constexpr size_t kMaxName = 256;
constexpr std::string_view kLeftOut = "web_search";  // and "web_search_preview", and dated ones

// A format's headers may end a name at a blank or a '<' (Harmony's do), so the model could never
// call such a function.
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

std::string_view TypeOf(const JsonValue& tool) {
  const JsonValue* type = tool.object() ? tool.Find("type") : nullptr;
  return type && type->string() ? std::string_view(*type->string()) : "";
}

// Reads a list of tools into `fields`.
class ToolReader {
 public:
  ToolReader(FieldReader& request, ToolFields& fields, std::optional<ApiError>& error)
      : request_(request), fields_(fields), error_(error) {}

  void Read(const JsonValue::Array& tools, ToolKinds kinds) {
    for (size_t i = 0; i < tools.size() && !error_; ++i) {
      const std::string path = StrCat("tools[", i, "]");
      const std::string_view type = kinds == ToolKinds::kOfResponses ? TypeOf(tools[i]) : "";
      if (type == "namespace") {
        ReadNamespace(tools[i], path);
      } else if (!type.starts_with(kLeftOut)) {
        Add(tools[i], path);
      }
    }
  }

 private:
  void Add(const JsonValue& json, const std::string& path, std::string_view space = "") {
    ToolSpec spec = ReadTool(json, path, error_);
    if (error_) return;
    if (!space.empty()) {
      ToolName name{std::string(space), std::move(spec.name)};
      spec.name = FlatName(name);
      fields_.namespaced.emplace(spec.name, std::move(name));
    }
    if (!names_.insert(spec.name).second)
      return request_.FailAt(StrCat(path, json.Find("function") ? ".function.name" : ".name"),
                             StrCat("\"", spec.name, "\" is the name of an earlier tool"));
    if (fields_.tools.size() == kMaxTools)
      return request_.Fail("tools", "has more than 1024 functions");
    spec.field = path;
    fields_.tools.push_back(std::move(spec));
  }

  // Its description is shown with its first function.
  void ReadNamespace(const JsonValue& json, const std::string& path) {
    FieldReader entry(json, path, error_);
    const std::string space = entry.String("name"), about = entry.String("description");
    if (!IsCallable(space))
      entry.Fail("name", "must be a text of 1 to 256 bytes without blanks and '<'");
    const auto* tools = entry.Array("tools");
    const size_t first = fields_.tools.size();
    for (size_t i = 0; tools && i < tools->size() && !error_; ++i)
      Add((*tools)[i], StrCat(path, ".tools[", i, "]"), space);
    if (error_ || about.empty() || first == fields_.tools.size()) return;
    std::optional<std::string>& shown = fields_.tools[first].description;
    shown = shown && !shown->empty() ? StrCat(about, "\n\n", *shown) : about;
  }

  FieldReader& request_;
  ToolFields& fields_;
  std::optional<ApiError>& error_;
  std::set<std::string> names_;
};

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
  std::string name = FlatName({function.String("namespace"), function.String("name")});
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

std::string FlatName(const ToolName& name) {
  return name.space.empty() ? name.name : StrCat(name.space, "__", name.name);
}

bool IsLeftOut(const JsonValue& tool) {
  return TypeOf(tool).starts_with(kLeftOut);
}

ToolFields ReadTools(const JsonValue& body, std::optional<ApiError>& error, ToolKinds kinds) {
  ToolFields fields;
  FieldReader request(body, "", error);
  if (const auto* tools = request.Array("tools"))
    ToolReader(request, fields, error).Read(*tools, kinds);
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
