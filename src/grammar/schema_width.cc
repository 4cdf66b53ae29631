#include "grammar/schema_width.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>

#include "grammar/json_schema.h"

namespace rose {
namespace {

constexpr std::array<std::string_view, 5> kMaps = {"$defs", "definitions", "dependentSchemas",
                                                   "patternProperties", "properties"};
constexpr std::array<std::string_view, 4> kValues = {"const", "default", "enum", "examples"};
constexpr std::array<std::string_view, 3> kLists = {"allOf", "anyOf", "oneOf"};

template <typename List>
bool Contains(const List& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

class WidthCheck {
 public:
  explicit WidthCheck(const JsonValue& root) : root_(root) {}

  // The most over all schemas within a value.
  int64_t Widest(const JsonValue& value) {
    int64_t widest = 0;
    if (const auto* list = value.array())
      for (const JsonValue& item : *list) widest = std::max(widest, Widest(item));
    if (value.object() == nullptr) return widest;
    widest = std::max(OpeningOf(value), LongestRunOf(value));
    for (const auto& [name, member] : *value.object()) {
      if (Contains(kValues, name)) continue;
      if (!Contains(kMaps, name) || member.object() == nullptr) {
        widest = std::max(widest, Widest(member));
        continue;
      }
      for (const auto& [key, schema] : *member.object()) widest = std::max(widest, Widest(schema));
    }
    return widest;
  }

 private:
  struct Runs {
    int64_t first = 0;    // properties that may begin the object
    int64_t longest = 0;  // that may come next anywhere in it
  };

  static Runs RunsOf(const JsonValue& schema) {
    const JsonValue* properties = schema.Find("properties");
    if (properties == nullptr || properties->object() == nullptr) return {};
    std::set<std::string_view> required;
    if (const JsonValue* names = schema.Find("required"); names != nullptr && names->array())
      for (const JsonValue& name : *names->array())
        if (name.string() != nullptr) required.insert(*name.string());
    Runs runs;
    int64_t run = 0;
    bool first = true;
    for (const auto& [name, unused] : *properties->object()) {
      runs.longest = std::max(runs.longest, ++run);
      if (first) runs.first = run;
      if (!required.contains(name)) continue;
      run = 0;
      first = false;
    }
    return runs;
  }

  static int64_t LongestRunOf(const JsonValue& schema) { return RunsOf(schema).longest; }

  // What may come first in a value of the schema. Of one that contains itself, once.
  int64_t OpeningOf(const JsonValue& schema) {
    const auto [known, added] = openings_.emplace(&schema, 0);
    if (!added) return known->second;
    int64_t sum = RunsOf(schema).first;
    const auto add = [&](const JsonValue& other) {
      sum = std::min(sum + OpeningOf(other), kMaxNextProperties + 1);
    };
    for (const std::string_view name : kLists) {
      const JsonValue* list = schema.Find(name);
      if (list == nullptr || list->array() == nullptr) continue;
      for (const JsonValue& branch : *list->array()) add(branch);
    }
    const JsonValue* ref = schema.Find("$ref");
    if (ref != nullptr && ref->string() != nullptr)
      if (const JsonValue* target = ResolveReference(root_, *ref->string())) add(*target);
    openings_[&schema] = sum;
    return sum;
  }

  const JsonValue& root_;
  std::map<const JsonValue*, int64_t> openings_;
};

}  // namespace

Status CheckSchemaWidth(const JsonValue& schema) {
  if (WidthCheck(schema).Widest(schema) <= kMaxNextProperties) return Status();
  return InvalidArgument("more than ", kMaxNextProperties,
                         " of the schema's properties may come next at one place, since none of "
                         "them is required; require some, or split the object");
}

}  // namespace rose
