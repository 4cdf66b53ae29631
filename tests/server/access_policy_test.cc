#include "server/access_policy.h"

#include <gtest/gtest.h>

#include <string>

#include "base/json.h"

namespace rose {
namespace {

HttpRequest Ask(std::string method, std::string path, HttpHeaders headers = {}) {
  HttpRequest request;
  request.method = std::move(method);
  request.path = std::move(path);
  request.headers = std::move(headers);
  return request;
}

TEST(EqualsSecret, ComparesWholeTexts) {
  EXPECT_TRUE(EqualsSecret("abc", "abc"));
  for (const char* other : {"", "ab", "abcd", "abd", "Abc", "abcabc"}) {
    EXPECT_FALSE(EqualsSecret(other, "abc")) << other;
  }
  EXPECT_FALSE(EqualsSecret("", ""));
  EXPECT_FALSE(EqualsSecret("a", ""));
}

TEST(CheckAccess, AsksForAKeyUnderV1Only) {
  const AccessPolicy open, guarded{.keys = {"first", "second"}};
  EXPECT_FALSE(CheckAccess(open, Ask("GET", "/v1/models")));
  for (const char* path : {"/health", "/metrics", "/tokenize", "/v10", "/x/v1/models"}) {
    EXPECT_FALSE(CheckAccess(guarded, Ask("GET", path))) << path;
  }
  for (const char* path : {"/v1", "/v1/models", "/v1/chat/completions", "/v1/nothing"}) {
    const auto refusal = CheckAccess(guarded, Ask("POST", path));
    ASSERT_TRUE(refusal) << path;
    EXPECT_EQ(refusal->status, 401);
    EXPECT_EQ(FindHeader(refusal->headers, "WWW-Authenticate"), "Bearer");
    const JsonValue body = ParseJson(refusal->body).value();
    const JsonValue& error = *body.Find("error");
    EXPECT_EQ(*error.Find("type")->string(), "AuthenticationError");
    EXPECT_EQ(*error.Find("code")->string(), "invalid_api_key");
    EXPECT_NE(error.Find("message")->string()->find("Authorization: Bearer"), std::string::npos);
  }
}

// Anthropic's clients read errors in a form of their own.
TEST(CheckAccess, SpeaksToAnthropicsClientsInTheirForm) {
  const auto refusal = CheckAccess({.keys = {"k"}}, Ask("POST", "/v1/messages"));
  ASSERT_TRUE(refusal);
  const JsonValue body = ParseJson(refusal->body).value();
  EXPECT_EQ(*body.Find("type")->string(), "error") << refusal->body;
  EXPECT_EQ(*body.Find("error")->Find("type")->string(), "authentication_error");
}

TEST(CheckAccess, TakesAnyOfItsKeys) {
  const AccessPolicy policy{.keys = {"first", "second"}};
  const auto passes = [&](std::string name, std::string value) {
    return !CheckAccess(policy, Ask("GET", "/v1/models", {{std::move(name), std::move(value)}}));
  };
  EXPECT_TRUE(passes("Authorization", "Bearer first"));
  EXPECT_TRUE(passes("authorization", "bearer  second"));
  EXPECT_TRUE(passes("x-api-key", "second"));
  EXPECT_FALSE(passes("Authorization", "Bearer third"));
  EXPECT_FALSE(passes("Authorization", "Bearer "));
  EXPECT_FALSE(passes("Authorization", "Bearer firstsecond"));
  EXPECT_FALSE(passes("Authorization", "Basic first"));
  EXPECT_FALSE(passes("Authorization", "first"));
  // No key is ever part of an answer.
  const auto refusal =
      CheckAccess(policy, Ask("GET", "/v1/models", {{"Authorization", "Bearer guess"}}));
  EXPECT_EQ(refusal->body.find("guess"), std::string::npos);
  EXPECT_EQ(refusal->body.find("first"), std::string::npos);
}

TEST(Cors, KnowsWhatAnOriginIs) {
  for (const char* origin :
       {"*", "https://app.example", "http://localhost:3000", "http://127.0.0.1", "http://[::1]:80",
        "chrome-extension://abcdef", "capacitor://localhost", "https://a-b.c_d.example"})
    EXPECT_TRUE(IsOrigin(origin)) << origin;
  for (const char* other :
       {"", "foo", "app.example", "https://", "://x", "https://app.example/", "https://a/b",
        "https://a?b", "https://A.example", "HTTPS://a", "https://a:", "https://a:x", "https://a b",
        "https://[::1", "https://[::1]x", "https://user@a", "https://a,https://b", "**", "* "})
    EXPECT_FALSE(IsOrigin(other)) << other;
}

TEST(Cors, AnswersPreflightsOfAllowedPages) {
  const AccessPolicy policy{.keys = {"k"}, .origins = {"https://app.example"}};
  const auto preflight = [&](std::string origin) {
    return CheckAccess(policy,
                       Ask("OPTIONS", "/v1/chat/completions",
                           {{"Origin", std::move(origin)},
                            {"Access-Control-Request-Method", "POST"},
                            {"Access-Control-Request-Headers", "authorization,content-type"}}));
  };
  const auto allowed = preflight("https://app.example");
  ASSERT_TRUE(allowed);
  EXPECT_EQ(allowed->status, 204);
  EXPECT_EQ(FindHeader(allowed->headers, "Access-Control-Allow-Headers"),
            "authorization,content-type");
  EXPECT_NE(FindHeader(allowed->headers, "Access-Control-Allow-Methods").find("POST"),
            std::string::npos);
  const auto refused = preflight("https://other.example");
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 403);
  EXPECT_NE(refused->body.find("PermissionDeniedError"), std::string::npos);
}

TEST(Cors, LetsOnlyAllowedPagesRead) {
  const auto allowed_origin = [](const AccessPolicy& policy, const char* origin) {
    return std::string(FindHeader(CorsHeaders(policy, Ask("GET", "/", {{"Origin", origin}})),
                                  "Access-Control-Allow-Origin"));
  };
  EXPECT_EQ(allowed_origin({}, "https://a"), "");
  EXPECT_EQ(allowed_origin({.origins = {"https://a"}}, "https://a"), "https://a");
  EXPECT_EQ(allowed_origin({.origins = {"https://a"}}, "https://b"), "");
  EXPECT_EQ(allowed_origin({.origins = {"*"}}, "https://b"), "https://b");
  // Caches are told in any case.
  EXPECT_EQ(FindHeader(CorsHeaders({.origins = {"*"}}, Ask("GET", "/")), "Vary"), "Origin");
}

}  // namespace
}  // namespace rose
