#include "grammar/schema_width.h"

#include <gtest/gtest.h>

#include <string>

#include "grammar/reference_bomb.h"

namespace rose {
namespace {

// An object of `count` properties, of which those at `required` are.
std::string Object(int count, std::initializer_list<int> required = {}) {
  std::string text = R"({"properties":{)", names;
  for (int i = 0; i < count; ++i) text += StrCat(i == 0 ? "" : ",", "\"p", i, "\":{}");
  for (const int i : required) names += StrCat(names.empty() ? "" : ",", "\"p", i, "\"");
  return text + R"(},"required":[)" + names + "]}";
}

bool Fits(const std::string& schema) {
  return CheckSchemaWidth(*ParseJson(schema)).ok();
}

TEST(SchemaWidth, CountsWhatMayComeNext) {
  constexpr int kMost = kMaxNextProperties;
  EXPECT_TRUE(Fits(Object(kMost)));
  EXPECT_FALSE(Fits(Object(kMost + 1)));
  // A required one ends what may come before it, and counts itself.
  EXPECT_TRUE(Fits(Object(2 * kMost, {kMost - 1})));
  EXPECT_FALSE(Fits(Object(2 * kMost, {kMost})));
  EXPECT_FALSE(Fits(Object(2 * kMost, {kMost - 2})));
}

TEST(SchemaWidth, AddsUpWhatBeginsAtOnePlace) {
  const std::string half = Object(240), more = Object(241), opened = Object(400, {0});
  for (const char* name : {"anyOf", "oneOf", "allOf"}) {
    EXPECT_TRUE(Fits(StrCat("{\"", name, "\":[", half, ",", half, "]}")));
    EXPECT_FALSE(Fits(StrCat("{\"", name, "\":[", half, ",", more, "]}")));
    EXPECT_TRUE(Fits(StrCat("{\"", name, "\":[", opened, ",", opened, ",", opened, "]}")));
  }
  const std::string defs = StrCat(R"("$defs":{"a":)", more, "}");
  EXPECT_TRUE(Fits(StrCat(R"({"$ref":"#/$defs/a",)", defs, "}")));
  EXPECT_FALSE(Fits(StrCat(R"({"anyOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}],)", defs, "}")));
}

TEST(SchemaWidth, LooksAtEverySchemaAndAtNothingElse) {
  const std::string wide = Object(481);
  for (const std::string& schema :
       {StrCat(R"({"properties":{"a":)", wide, "}}"), StrCat(R"({"items":)", wide, "}"),
        StrCat(R"({"prefixItems":[{},)", wide, "]}"), StrCat(R"({"$defs":{"const":)", wide, "}}"),
        StrCat(R"({"additionalProperties":)", wide, "}")})
    EXPECT_FALSE(Fits(schema)) << schema.substr(0, 40);
  for (const std::string& schema :
       {StrCat(R"({"const":)", wide, "}"), StrCat(R"({"enum":[)", wide, "]}")})
    EXPECT_TRUE(Fits(schema)) << schema.substr(0, 40);
}

TEST(SchemaWidth, OneThatContainsItselfEnds) {
  EXPECT_TRUE(Fits(R"({"$ref":"#"})"));
  EXPECT_TRUE(Fits(R"({"properties":{"a":{"$ref":"#"}},"anyOf":[{"$ref":"#"},{}]})"));
  EXPECT_FALSE(Fits(ReferenceBomb(R"({"properties":{"a":{}}})")));
}

}  // namespace
}  // namespace rose
