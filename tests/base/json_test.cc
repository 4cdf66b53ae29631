#include "base/json.h"

#include <gtest/gtest.h>

#include "base/utf8.h"

namespace rose {
namespace {

std::string RoundTrip(std::string_view text) {
  const auto value = ParseJson(text);
  return value.ok() ? WriteJson(*value) : "error: " + value.status().message();
}

TEST(Json, ReadsAndWritesEveryKind) {
  EXPECT_EQ(RoundTrip(R"( { "b" : [ 1 , true,null ] , "a":"x\n\u00e9\/" } )"),
            "{\"b\":[1,true,null],\"a\":\"x\\n\u00e9/\"}");
  EXPECT_EQ(RoundTrip("[]"), "[]");
  EXPECT_EQ(RoundTrip("{}"), "{}");
  EXPECT_EQ(RoundTrip("\"\\u0001\\u007f\""), "\"\\u0001\x7f\"");
}

TEST(Json, RepeatedKeyKeepsFirstPlaceAndLastValue) {
  EXPECT_EQ(RoundTrip(R"({"a":1,"b":2,"a":3,"c":4,"a":5})"), R"({"a":5,"b":2,"c":4})");
}

TEST(Json, SurrogatesPairOrBecomeReplacement) {
  EXPECT_EQ(RoundTrip(R"("\ud83e\udd99")"), "\"\U0001F999\"");
  EXPECT_EQ(RoundTrip(R"("\ud83ex")"), "\"\uFFFDx\"");
  EXPECT_EQ(RoundTrip(R"("\udd99")"), "\"\uFFFD\"");
  EXPECT_EQ(RoundTrip(R"("\ud83e\n")"), "\"\uFFFD\\n\"");
  EXPECT_EQ(RoundTrip(R"("\ud83e\ud83e\udd99")"), "\"\uFFFD\U0001F999\"");
}

TEST(Json, RefusesWithAPlace) {
  for (const char* bad : {"",         "{",    "[1,]", "{\"a\":}", "{\"a\" 1}",
                          "{a:1}",    "[1",   "\"x",  "\"\\q\"",  "\"\\u12g4\"",
                          "\"\x01\"", "01",   "+1",   "1.",       ".5",
                          "1e",       "-",    "NaN",  "Infinity", "-Infinity",
                          "tru",      "[1]]", "'x'",  "\"\xff\"", "\"\xed\xa0\x80\"",
                          "nul"})
    EXPECT_FALSE(ParseJson(bad).ok()) << bad;
  EXPECT_EQ(ParseJson("{\"a\": [1, x]}").status().message(),
            "Invalid JSON at byte 10: expected a value.");
}

TEST(Json, NulBytesAreText) {
  const auto value = ParseJson(R"("a\u0000b")");
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(*value->string(), std::string("a\0b", 3));
  EXPECT_FALSE(ParseJson(std::string_view("[1]\0", 4)).ok());
}

TEST(Case099, JsonDepthAndSizeAreBounded) {
  const auto nested = [](int n) { return std::string(n, '[') + std::string(n, ']'); };
  EXPECT_TRUE(ParseJson(nested(127)).ok());
  EXPECT_FALSE(ParseJson(nested(128)).ok());
  EXPECT_FALSE(ParseJson(nested(1000000)).ok());
  EXPECT_FALSE(ParseJson(std::string(1000000, '[')).ok());
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "{\"a\":";
  EXPECT_FALSE(ParseJson(deep).ok());
  EXPECT_FALSE(ParseJson("[1,2,3]", {.depth = 4, .values = 3}).ok());
  EXPECT_TRUE(ParseJson("[1,2,3]", {.depth = 4, .values = 4}).ok());
}

TEST(Json, CanonicalNumbers) {
  const std::pair<const char*, const char*> cases[] = {
      {"0", "0"},
      {"-0", "-0.0"},
      {"-0.0", "-0.0"},
      {"1.0", "1.0"},
      {"10", "10"},
      {"1e5", "100000.0"},
      {"1e15", "1000000000000000.0"},
      {"1e16", "1e16"},
      {"0.00001", "0.00001"},
      {"0.000001", "1e-6"},
      {"1.25e-7", "1.25e-7"},
      {"-12.50", "-12.5"},
      {"9223372036854775807", "9223372036854775807"},
      {"18446744073709551615", "18446744073709551615"},
      {"18446744073709551616", "1.8446744073709552e19"},
      {"-9223372036854775809", "-9.223372036854776e18"},
      {"1e-400", "0.0"},
      {"0.1", "0.1"},
      {"123456789012345680.0", "1.2345678901234568e17"},
      {"5e-324", "5e-324"}};
  for (const auto& [in, out] : cases) EXPECT_EQ(CanonicalNumber(in), out) << in;
  EXPECT_FALSE(CanonicalNumber("1e400"));
}

TEST(Json, NumbersAsTypes) {
  const auto integer = [](const char* text) { return ParseJson(text)->AsInteger(); };
  EXPECT_EQ(integer("5"), 5);
  EXPECT_EQ(integer("5.0"), 5);
  EXPECT_EQ(integer("-9223372036854775808"), INT64_MIN);
  for (const char* text : {"1.5", "9223372036854775808", "1e30", "1e999", "\"5\"", "true"})
    EXPECT_FALSE(integer(text)) << text;
  EXPECT_FALSE(ParseJson("1e999")->AsDouble());
  EXPECT_EQ(ParseJson("1e-999")->AsDouble(), 0.0);
}

TEST(Utf8, AcceptsWhatTheStandardAllows) {
  for (const char* good : {"", "a", "\u00e9", "\u4e2d", "\U0001F999", "\xf4\x8f\xbf\xbf"})
    EXPECT_TRUE(IsValidUtf8(good)) << good;
  for (const char* bad :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xe2\x82",
        "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "a\xff"})
    EXPECT_FALSE(IsValidUtf8(bad));
  std::string out;
  for (const uint32_t c : {0x41u, 0xe9u, 0x4e2du, 0x1f999u}) AppendUtf8(out, c);
  EXPECT_EQ(out, "A\u00e9\u4e2d\U0001F999");
}

}  // namespace
}  // namespace rose
