#include "grammar/json_schema.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace rose {
namespace {

// The prepared schema without the switches for the library; "" for a refusal.
std::string Prepared(std::string_view text) {
  const auto prepared = PrepareJsonSchema(text);
  if (!prepared.ok()) return "";
  const std::string& schema = prepared.value();
  const size_t switches = schema.find(R"("x-guidance":{"whitespace_pattern")");
  EXPECT_NE(switches, schema.npos);
  return schema.substr(0, switches);
}

TEST(JsonSchema, ObjectsThatListTheirPropertiesAreClosed) {
  EXPECT_EQ(Prepared(R"({"type":"object","properties":{"a":{"properties":{}}}})"),
            R"({"type":"object","properties":{"a":{"properties":{},"additionalProperties":false}},)"
            R"("additionalProperties":false,)");
  // Unless they say something about others, or cannot know them.
  for (const char* schema :
       {R"({"properties":{"a":{}},"additionalProperties":true,)",
        R"({"properties":{"a":{}},"additionalProperties":{"type":"string"},)",
        R"({"properties":{"a":{}},"patternProperties":{"b":{}},)",
        R"({"properties":{"a":{}},"minProperties":2,)",
        R"({"properties":{"a":{}},"required":["b"],)", R"({"type":"object",)",
        R"({"properties":{"a":{}},"allOf":[{"properties":{"b":{}}}],)",
        R"({"allOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}],)",
        R"({"oneOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}],)",
        R"({"properties":{"a":{}},"$ref":"#/$defs/x","$defs":{"x":{"properties":{"b":{}}}},)"})
    EXPECT_EQ(Prepared(std::string(schema).substr(0, std::string(schema).size() - 1) + "}"),
              schema);
  EXPECT_EQ(Prepared(R"({"anyOf":[{"properties":{"a":{}}},{"type":"null"}]})"),
            R"({"anyOf":[{"properties":{"a":{}},"additionalProperties":false},{"type":"null"}],)");
}

TEST(JsonSchema, WhatSaysNothingIsLeftOut) {
  EXPECT_EQ(Prepared(R"({"type":"string","format":"password"})"), R"({"type":"string",)");
  EXPECT_EQ(Prepared(R"({"type":"string","format":"date"})"),
            R"({"type":"string","format":"date",)");
  EXPECT_EQ(Prepared(R"({"type":"array","uniqueItems":false})"), R"({"type":"array",)");
  EXPECT_EQ(Prepared(R"({"type":"array","uniqueItems":true})"),
            R"({"type":"array","uniqueItems":true,)");
  EXPECT_EQ(Prepared(R"({"items":{"x-guidance":{}}})"), R"({"items":{},)");
  EXPECT_EQ(Prepared(R"({"$schema":"http://json-schema.org/draft-07/schema#","items":[{},true],)"
                     R"("additionalItems":false})"),
            R"({"prefixItems":[{},true],"items":false,)");
  // Names of properties are no keywords.
  EXPECT_EQ(Prepared(R"({"properties":{"format":{},"x-guidance":{}},"additionalProperties":true})"),
            R"({"properties":{"format":{},"x-guidance":{}},"additionalProperties":true,)");
  EXPECT_EQ(Prepared(R"({"const":{"format":"x"}})"), R"({"const":{"format":"x"},)");
}

TEST(JsonSchema, ExcludedBoundsOfNumbersAreALittleWithin) {
  EXPECT_EQ(Prepared(R"({"type":"number","minimum":-41,"exclusiveMaximum":-39})"),
            R"({"type":"number","minimum":-41,"maximum":-39.000001,)");
  EXPECT_EQ(Prepared(R"({"exclusiveMinimum":0})"), R"({"minimum":1e-6,)");
  EXPECT_EQ(Prepared(R"({"exclusiveMaximum":1e15})"), R"({"maximum":999999999999000.0,)");
  // In a small range, by less.
  EXPECT_EQ(Prepared(R"({"exclusiveMinimum":0,"maximum":4e-7})"),
            R"({"maximum":4e-7,"minimum":1e-7,)");
  // The narrower bound holds; the switches of old drafts do as well.
  EXPECT_EQ(Prepared(R"({"minimum":2,"exclusiveMinimum":1})"), R"({"minimum":2,)");
  EXPECT_EQ(Prepared(R"({"minimum":2,"exclusiveMinimum":5})"), R"({"minimum":5.000001,)");
  EXPECT_EQ(Prepared(R"({"maximum":2,"exclusiveMaximum":true})"), R"({"maximum":1.999999,)");
  EXPECT_EQ(Prepared(R"({"maximum":2,"exclusiveMaximum":false})"),
            R"({"maximum":2,"exclusiveMaximum":false,)");
  // Not those of whole numbers, of empty ranges, or what is no bound.
  for (const char* schema :
       {R"({"type":"integer","exclusiveMinimum":1,)",
        R"({"exclusiveMinimum":3,"exclusiveMaximum":3,)", R"({"exclusiveMinimum":"1",)"})
    EXPECT_EQ(Prepared(std::string(schema, std::string(schema).size() - 1) + "}"), schema);
}

TEST(JsonSchema, BranchesOfOneOfAreCopied) {
  EXPECT_EQ(
      Prepared(R"({"oneOf":[{"$ref":"#/$defs/a"},{"type":"null"}],"$defs":{"a":{"const":1}}})"),
      R"({"oneOf":[{"const":1},{"type":"null"}],"$defs":{"a":{"const":1}},)");
}

TEST(Case099, BoundsOfASchema) {
  const auto nested = [](int depth) {
    std::string text = "{}";
    for (int i = 1; i < depth; ++i) text = R"({"items":)" + text + "}";
    return text;
  };
  EXPECT_NE(Prepared(nested(kMaxSchemaDepth)), "");
  EXPECT_EQ(Prepared(nested(kMaxSchemaDepth + 1)), "");
  EXPECT_EQ(Prepared(R"({"description":")" + std::string(kMaxSchemaBytes, 'x') + "\"}"), "");
  const auto properties = [](int64_t count) {
    std::string text = R"({"additionalProperties":true,"properties":{"0":{})";
    for (int64_t i = 1; i < count; ++i) text += StrCat(",\"", i, "\":{}");
    return text + R"(},"required":["400","800"]})";
  };
  EXPECT_NE(Prepared(properties(kMaxObjectProperties)), "");
  EXPECT_EQ(Prepared(properties(kMaxObjectProperties + 1)), "");
  EXPECT_NE(Prepared(R"({"minItems":100000})"), "");
  for (const char* schema :
       {R"({"minItems":100001})", R"({"items":{"minLength":1e99}})", R"({"minProperties":1000000})",
        R"({"$ref":"#"})", R"({"items":{"$ref":"#/$defs/none"}})", R"({"$ref":1})",
        R"({"$ref":"other.json"})", R"({"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/a"}}})",
        R"({"items":{"$ref":"#/anyOf/7"},"anyOf":[{}]})", "[]", "1", "false", "{", ""})
    EXPECT_EQ(Prepared(schema), "") << schema;
  EXPECT_EQ(Prepared("true"), "{");
  EXPECT_NE(Prepared(R"({"properties":{"a":{"$ref":"#"}}})"), "");
  std::string refs = R"({"$defs":{"a":{}},"anyOf":[{"$ref":"#/$defs/a"})";
  for (int64_t i = 0; i < kMaxSchemaRefs; ++i) refs += R"(,{"$ref":"#/$defs/a"})";
  EXPECT_EQ(Prepared(refs + "]}"), "");
}

}  // namespace
}  // namespace rose
