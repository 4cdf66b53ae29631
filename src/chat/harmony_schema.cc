#include "chat/harmony_schema.h"

#include <set>
#include <vector>

#include "chat/harmony_number.h"

namespace rose {
namespace {

const std::string* FindString(const JsonValue& value, std::string_view key) {
  const JsonValue* member = value.Find(key);
  return member ? member->string() : nullptr;
}

const JsonValue::Array* FindArray(const JsonValue& value, std::string_view key) {
  const JsonValue* member = value.Find(key);
  return member ? member->array() : nullptr;
}

bool HasEnum(const JsonValue& schema) {
  const auto* members = FindArray(schema, "enum");
  return members && !members->empty();
}

// Whether a string default of an enum is printed bare, as almost everywhere, or in quotes.
enum class EnumDefault { kBare, kQuoted };

// "default: 10"; empty where there is none.
std::string DefaultText(const JsonValue& schema, EnumDefault style) {
  const JsonValue* value = schema.Find("default");
  if (!value) return "";
  const std::string* text = value->string();
  if (text && !HasEnum(schema)) return "default: \"" + *text + "\"";
  if (text && style == EnumDefault::kBare) return "default: " + *text;
  return "default: " + WriteJson(*value);
}

std::string Comments(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? " // " : " ") + part;
  return out;
}

std::string Type(const JsonValue& schema, const std::string& indent);

// A text that already speaks of null, wherever, is not marked again.
std::string NullableType(const JsonValue& schema, const std::string& indent) {
  std::string type = Type(schema, indent);
  const JsonValue* nullable = schema.Find("nullable");
  const bool* flag = nullable ? nullable->boolean() : nullptr;
  if (flag && *flag && type.find("null") == type.npos) type += " | null";
  return type;
}

// oneOf where it is not a property's own: as the parameters, an array's items, or inside a oneOf.
std::string UnionType(const JsonValue::Array& variants, const std::string& indent) {
  std::string out;
  for (const JsonValue& variant : variants) {
    out += "\n" + indent + " | " + NullableType(variant, indent + "   ");
    std::vector<std::string> comments;
    if (const auto* text = FindString(variant, "description")) comments.push_back(*text);
    if (auto text = DefaultText(variant, EnumDefault::kQuoted); !text.empty())
      comments.push_back(std::move(text));
    out += Comments(comments);
  }
  return out;
}

std::string TypeList(const JsonValue::Array& names) {
  std::string out;
  bool any = true;
  for (const JsonValue& name : names) {
    const std::string* text = name.string();
    if (!text) continue;
    if (!any) out += " | ";
    any = false;
    out += *text == "integer" ? "number" : *text;
  }
  return any ? "any" : out;
}

std::string StringType(const JsonValue& schema) {
  std::string out;
  if (const auto* members = FindArray(schema, "enum"))
    for (const JsonValue& member : *members)
      if (const std::string* text = member.string())
        out += (out.empty() ? "\"" : " | \"") + *text + "\"";
  return out.empty() ? "string" : out;
}

std::string TitleLines(const JsonValue& property, const std::string& indent) {
  const std::string* title = FindString(property, "title");
  return title ? indent + "// " + *title + "\n" + indent + "//\n" : "";
}

std::string ExampleLines(const JsonValue& property, const std::string& indent) {
  const auto* examples = FindArray(property, "examples");
  if (!examples || examples->empty()) return "";
  std::string out = indent + "// Examples:\n";
  for (const JsonValue& example : *examples)
    if (const std::string* text = example.string()) out += indent + "// - \"" + *text + "\"\n";
  return out;
}

// A property whose schema is a oneOf list: one line per variant. A description is not repeated: the
// property's is left out if it is the first variant's, and else the first variant's is.
std::string UnionProperty(const std::string& name, const JsonValue& property,
                          const JsonValue::Array& variants, const std::string& indent) {
  std::string out = TitleLines(property, indent) + ExampleLines(property, indent);
  const std::string* description = FindString(property, "description");
  const std::string* first = variants.empty() ? nullptr : FindString(variants[0], "description");
  const bool above = description && !(first && *first == *description);
  if (above) out += indent + "// " + *description + "\n";
  if (const auto text = DefaultText(property, EnumDefault::kBare); !text.empty())
    out += indent + "// " + text + "\n";

  out += indent + name + ":\n";
  for (const JsonValue& variant : variants) {
    out += indent + " | " + NullableType(variant, indent + "   ");
    std::vector<std::string> comments;
    const std::string* own = FindString(variant, "description");
    const bool repeated = own && description && *own == *description;
    if (own && !repeated && !(above && &variant == &variants[0])) comments.push_back(*own);
    if (auto text = DefaultText(variant, EnumDefault::kBare); !text.empty())
      comments.push_back(std::move(text));
    out += Comments(comments) + "\n";
  }
  return out + indent + ",\n";
}

std::string Property(const std::string& name, const JsonValue& property,
                     const std::string& indent) {
  if (const auto* variants = FindArray(property, "oneOf"))
    return UnionProperty(name, property, *variants, indent);
  // A oneOf that is no list still takes description and default with it, as in the reference.
  const bool plain = !property.Find("oneOf");
  std::string out = TitleLines(property, indent);
  if (const auto* text = FindString(property, "description"); text && plain)
    out += indent + "// " + *text + "\n";
  out += ExampleLines(property, indent);
  out += indent + name + ": " + NullableType(property, indent + "    ") + ",";
  if (plain) {
    if (const auto text = DefaultText(property, EnumDefault::kBare); !text.empty())
      out += " // " + text;
  }
  return out + "\n";
}

std::string ObjectType(const JsonValue& schema, const std::string& indent) {
  std::string out;
  if (const auto* text = FindString(schema, "description")) out += indent + "// " + *text + "\n";
  out += "{\n";
  const JsonValue* member = schema.Find("properties");
  const JsonValue::Object* properties = member ? member->object() : nullptr;
  if (properties) {
    std::set<std::string_view> required;
    if (const auto* names = FindArray(schema, "required"))
      for (const JsonValue& name : *names)
        if (name.string()) required.insert(*name.string());
    for (const auto& [key, property] : *properties)
      out += Property(required.contains(key) ? key : key + "?", property, indent);
  }
  return out + indent + "}";
}

// Recursion is bounded by the depth that the JSON reader allowed.
std::string Type(const JsonValue& schema, const std::string& indent) {
  if (const auto* variants = FindArray(schema, "oneOf")) return UnionType(*variants, indent);
  if (const auto* names = FindArray(schema, "type")) return TypeList(*names);
  const std::string* type = FindString(schema, "type");
  if (!type) return "any";
  if (*type == "object") return ObjectType(schema, indent);
  if (*type == "string") return StringType(schema);
  if (*type == "number" || *type == "integer") return "number";
  if (*type == "boolean") return "boolean";
  if (*type == "array") {
    const JsonValue* items = schema.Find("items");
    return items ? Type(*items, indent) + "[]" : "Array<any>";
  }
  return "any";
}

}  // namespace

Result<std::string> SchemaToType(const JsonValue& schema) {
  const auto read = WithReferenceNumbers(schema);
  if (!read) return InvalidArgument("A number in the schema is too large for a double.");
  return Type(*read, "");
}

}  // namespace rose
