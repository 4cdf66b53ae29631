#include "grammar/json_schema.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "grammar/schema_width.h"

namespace rose {
namespace {

constexpr std::string_view kSpace = R"( |\r?\n[ \t]{0,32})";

// Keywords by what they hold.
constexpr std::array<std::string_view, 5> kMapsOfSchemas = {
    "$defs", "definitions", "dependentSchemas", "patternProperties", "properties"};
constexpr std::array<std::string_view, 5> kListsOfSchemas = {"allOf", "anyOf", "items", "oneOf",
                                                             "prefixItems"};
constexpr std::array<std::string_view, 11> kSchemas = {"additionalItems",
                                                       "additionalProperties",
                                                       "contains",
                                                       "else",
                                                       "if",
                                                       "items",
                                                       "not",
                                                       "propertyNames",
                                                       "then",
                                                       "unevaluatedItems",
                                                       "unevaluatedProperties"};
// Keywords that bring in another schema for the same value.
constexpr std::array<std::string_view, 8> kCombining = {
    "$ref", "allOf", "anyOf", "dependentSchemas", "else", "if", "not", "then"};
// Keywords that constrain nothing.
constexpr std::array<std::string_view, 10> kNotes = {
    "$comment",    "$defs",       "$id",           "$schema",  "default",
    "definitions", "description", "discriminator", "examples", "title"};
constexpr std::array<std::string_view, 11> kKnownFormats = {
    "date", "date-time", "duration", "email", "hostname", "ipv4",
    "ipv6", "time",      "unknown",  "uri",   "uuid"};

template <typename List>
bool Contains(const List& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

using Object = JsonValue::Object;
using Array = JsonValue::Array;

// Members that constrain.
int64_t Constraints(const Object& members) {
  return std::count_if(members.begin(), members.end(),
                       [](const auto& member) { return !Contains(kNotes, member.first); });
}

// Whether two schemas may speak about the same object, so that none of them knows all its
// properties. Coarse: one such place in the document decides. (In a "oneOf" the branches that are
// not taken must fail, so they must not be made narrower either.)
bool CombinesSchemas(const JsonValue& value) {
  if (const Array* array = value.array())
    return std::any_of(array->begin(), array->end(), CombinesSchemas);
  const Object* members = value.object();
  if (members == nullptr) return false;
  const bool alone = Constraints(*members) - (value.Find("type") != nullptr ? 1 : 0) <= 1;
  return std::any_of(members->begin(), members->end(), [&](const auto& member) {
    const Array* list = member.second.array();
    if (member.first == "oneOf") return true;
    if (member.first == "allOf" && (list == nullptr || list->size() > 1)) return true;
    return (Contains(kCombining, member.first) && !alone) || CombinesSchemas(member.second);
  });
}

// An object whose properties are all named. (A pattern, or a required name without a schema, means
// that others were thought of.)
bool ListsAllProperties(const JsonValue& schema) {
  const JsonValue* properties = schema.Find("properties");
  if (properties == nullptr || properties->object() == nullptr) return false;
  for (const std::string_view name :
       {"additionalProperties", "minProperties", "patternProperties", "propertyNames"}) {
    if (schema.Find(name) != nullptr) return false;
  }
  const JsonValue* required = schema.Find("required");
  if (required == nullptr || required->array() == nullptr) return true;
  return std::all_of(
      required->array()->begin(), required->array()->end(), [&](const JsonValue& name) {
        return name.string() != nullptr && properties->Find(*name.string()) != nullptr;
      });
}

// The bound that is meant by "exclusiveMinimum" or "exclusiveMaximum", in old drafts a switch.
std::optional<double> Excluded(const JsonValue& schema, std::string_view excluding,
                               std::string_view including) {
  const JsonValue* bound = schema.Find(excluding);
  if (bound != nullptr && bound->boolean() != nullptr)
    bound = *bound->boolean() ? schema.Find(including) : nullptr;
  return bound == nullptr ? std::nullopt : bound->AsDouble();
}

// Puts `bound` in the place of an excluded one; a bound of `members` that is narrower stays.
void Include(Object& members, std::string_view excluding, std::string_view including,
             double bound) {
  std::erase_if(members, [&](const auto& member) { return member.first == excluding; });
  const auto at = std::find_if(members.begin(), members.end(),
                               [&](const auto& member) { return member.first == including; });
  JsonValue value(JsonValue::Number{ShortestDouble(bound)});
  if (at == members.end()) {
    members.emplace_back(including, std::move(value));
  } else if (const std::optional<double> given = at->second.AsDouble();
             !given || (including == "minimum" ? *given < bound : *given > bound)) {
    at->second = std::move(value);
  }
}

// Numbers may have digits without end, and most readers round them to a double: -2.00...01 with
// enough zeros is -2, which an exclusiveMaximum of -2 excludes. So such a bound becomes one that is
// included, a little within.
void IncludeBounds(Object& members) {
  const JsonValue schema(members);
  const JsonValue* type = schema.Find("type");
  if (type != nullptr && type->string() != nullptr && *type->string() == "integer") return;
  const auto low = Excluded(schema, "exclusiveMinimum", "minimum");
  const auto high = Excluded(schema, "exclusiveMaximum", "maximum");
  if (!low && !high) return;
  const auto bound = [&](const std::optional<double>& excluded, std::string_view name) {
    const JsonValue* included = schema.Find(name);
    return excluded || included == nullptr ? excluded : included->AsDouble();
  };
  const auto first = bound(low, "minimum");
  const auto last = bound(high, "maximum");
  const double range = first && last ? *last - *first : HUGE_VAL;
  if (range <= 0) return;  // fits nothing, which the library says
  const auto step = [&](double at) {
    return std::min(std::max(1e-6, std::abs(at) * 1e-12), range / 4);
  };
  if (low) Include(members, "exclusiveMinimum", "minimum", *low + step(*low));
  if (high) Include(members, "exclusiveMaximum", "maximum", *high - step(*high));
}

class Preparer {
 public:
  explicit Preparer(const JsonValue& root) : root_(root), closes_(!CombinesSchemas(root)) {}

  JsonValue Schema(const JsonValue& schema) {
    const Object* members = schema.object();
    if (members == nullptr) return schema;
    Object out;
    for (const auto& [name, value] : *members) {
      if (Drops(name, value)) continue;
      if (name == "$ref") CheckRef(value);
      CheckSize(name, value);
      out.emplace_back(NewName(schema, name), Member(name, value));
    }
    IncludeBounds(out);
    if (closes_ && ListsAllProperties(schema))
      out.emplace_back("additionalProperties", JsonValue(false));
    return JsonValue(std::move(out));
  }

  const Status& status() const { return status_; }

 private:
  // Tuples of older drafts.
  static std::string NewName(const JsonValue& schema, const std::string& name) {
    const JsonValue* items = schema.Find("items");
    if (items == nullptr || items->array() == nullptr) return name;
    return name == "items" ? "prefixItems" : name == "additionalItems" ? "items" : name;
  }

  static bool Drops(std::string_view name, const JsonValue& value) {
    if (name == "$schema") return true;     // all drafts are read as the last one
    if (name == "x-guidance") return true;  // the library's own switches are not the client's
    if (name == "uniqueItems") return value.boolean() != nullptr && !*value.boolean();
    if (name == "format")
      return value.string() == nullptr || !Contains(kKnownFormats, *value.string());
    return false;
  }

  JsonValue Member(std::string_view name, const JsonValue& value) {
    if (Contains(kMapsOfSchemas, name) && value.object() != nullptr) {
      Object out;
      for (const auto& [key, schema] : *value.object()) out.emplace_back(key, Schema(schema));
      return JsonValue(std::move(out));
    }
    if (Contains(kListsOfSchemas, name) && value.array() != nullptr) {
      Array out;
      for (const JsonValue& schema : *value.array())
        out.push_back(Schema(name == "oneOf" ? Target(schema) : schema));
      return JsonValue(std::move(out));
    }
    return Contains(kSchemas, name) ? Schema(value) : value;
  }

  void Fail(const std::string& message) {
    if (status_.ok()) status_ = InvalidArgument(message);
  }

  void CheckSize(const std::string& name, const JsonValue& value) {
    if (name == "minItems" || name == "minLength" || name == "minProperties") {
      const std::optional<double> minimum = value.AsDouble();
      if (minimum && *minimum > kMaxSchemaMinimum)
        Fail(StrCat("the schema's ", name, " is above ", kMaxSchemaMinimum,
                    ", which no answer can reach"));
    }
    if (name != "properties" || value.object() == nullptr) return;
    const auto count = static_cast<int64_t>(value.object()->size());
    properties_ += count;
    if (count > kMaxObjectProperties || properties_ > kMaxSchemaProperties)
      Fail(StrCat("the schema has too many properties: at most ", kMaxObjectProperties,
                  " in one object and ", kMaxSchemaProperties, " in all are taken"));
  }

  void CheckRef(const JsonValue& value) {
    if (++refs_ > kMaxSchemaRefs)
      return Fail(StrCat("the schema has more than ", kMaxSchemaRefs, " references ($ref)"));
    if (value.string() == nullptr) return Fail("a $ref must be a string");
    const std::string name = value.string()->substr(0, 100);
    // A chain of nothing but references must end.
    std::set<const JsonValue*> seen;
    for (const std::string* next = value.string(); next != nullptr;) {
      const JsonValue* target = ResolveReference(root_, *next);
      if (target == nullptr)
        return Fail(StrCat("the $ref \"", name, "\" names nothing within the schema"));
      if (!seen.insert(target).second)
        return Fail(StrCat("the $ref \"", name, "\" leads to itself"));
      const JsonValue* ref = target->Find("$ref");
      next = ref == nullptr ? nullptr : ref->string();
    }
  }

  // The schema that a lone reference names; what that refers to stays a reference.
  const JsonValue& Target(const JsonValue& schema) {
    const JsonValue* ref = schema.Find("$ref");
    if (ref == nullptr || ref->string() == nullptr || Constraints(*schema.object()) != 1)
      return schema;
    CheckRef(*ref);
    if (!status_.ok()) return schema;
    const JsonValue* target = ResolveReference(root_, *ref->string());
    copied_bytes_ += static_cast<int64_t>(WriteJson(*target).size());
    if (copied_bytes_ > kMaxSchemaBytes) Fail("the branches of the schema's oneOf are too large");
    return *target;
  }

  const JsonValue& root_;
  const bool closes_;
  int64_t refs_ = 0;
  int64_t properties_ = 0;
  int64_t copied_bytes_ = 0;
  Status status_;
};

}  // namespace

const JsonValue* ResolveReference(const JsonValue& root, std::string_view reference) {
  if (!reference.starts_with('#')) return nullptr;
  reference.remove_prefix(1);
  const JsonValue* at = &root;
  while (!reference.empty() && reference != "/") {
    if (reference.front() != '/') return nullptr;
    reference.remove_prefix(1);
    const size_t end = std::min(reference.find('/'), reference.size());
    const std::string name(reference.substr(0, end));
    reference.remove_prefix(end);
    if (const Array* array = at->array()) {
      if (name.empty() || name.size() > 6 || name.find_first_not_of("0123456789") != name.npos ||
          std::stoul(name) >= array->size())
        return nullptr;
      at = &(*array)[std::stoul(name)];
    } else {
      at = at->Find(name);
      if (at == nullptr) return nullptr;
    }
  }
  return at;
}

Result<std::string> PrepareJsonSchema(std::string_view text) {
  if (static_cast<int64_t>(text.size()) > kMaxSchemaBytes)
    return InvalidArgument("the schema has ", text.size(), " bytes; at most ", kMaxSchemaBytes,
                           " are taken");
  Result<JsonValue> parsed = ParseJson(text, {.depth = kMaxSchemaDepth});
  if (!parsed.ok())
    return InvalidArgument("the schema cannot be read (at most ", kMaxSchemaDepth,
                           " levels deep): ", parsed.status().message());
  JsonValue root = std::move(parsed).value();
  if (root.boolean() != nullptr && *root.boolean()) root = JsonValue(Object{});
  if (root.object() == nullptr) return InvalidArgument("a schema must be a JSON object");

  Preparer preparer(root);
  const JsonValue prepared = preparer.Schema(root);
  ROSE_RETURN_IF_ERROR(preparer.status());
  ROSE_RETURN_IF_ERROR(CheckSchemaWidth(prepared));
  Object members = *prepared.object();
  members.emplace_back("x-guidance",
                       JsonValue(Object{{"whitespace_pattern", JsonValue(std::string(kSpace))}}));
  return WriteJson(JsonValue(std::move(members)));
}

}  // namespace rose
