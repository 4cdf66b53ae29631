// docs/openapi.json says what the server does, no more and no less.
#include "server/openapi.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <utility>

#include "base/json.h"
#include "server/stub_backend.h"

namespace rose {
namespace {

const JsonValue& Document() {
  static const JsonValue document = ParseJson(OpenApiText()).value();
  return document;
}

// "/v1/models/{model}" as a client would write it.
std::string Filled(std::string path) {
  for (size_t at = path.find('{'); at != std::string::npos; at = path.find('{')) {
    path.replace(at, path.find('}') - at + 1, "x");
  }
  return path;
}

struct Operation {
  std::string method, path;
  const JsonValue* about;
};

std::vector<Operation> Operations() {
  std::vector<Operation> operations;
  for (const auto& [path, item] : *Document().Find("paths")->object()) {
    for (const auto& [name, about] : *item.object()) {
      std::string method = name;
      std::transform(method.begin(), method.end(), method.begin(),
                     [](unsigned char c) { return std::toupper(c); });
      operations.push_back({std::move(method), path, &about});
    }
  }
  return operations;
}

TEST(OpenApi, HasEveryRouteAndNoOther) {
  const auto fits = [](std::string_view route, const std::string& path) {
    return route.ends_with('/') ? path.starts_with(route) && path.size() > route.size()
                                : path == route;
  };
  std::set<std::pair<std::string_view, std::string_view>> described;
  for (const Operation& operation : Operations()) {
    bool found = false;
    for (const auto& route : ApiService::Routes()) {
      if (route.first != operation.method || !fits(route.second, Filled(operation.path))) continue;
      described.insert(route);
      found = true;
    }
    EXPECT_TRUE(found) << operation.method << " " << operation.path << " is no route";
  }
  for (const auto& route : ApiService::Routes()) {
    EXPECT_TRUE(described.contains(route))
        << route.first << " " << route.second << " is not in docs/openapi.json";
  }
}

void CheckReferences(const JsonValue& value) {
  if (const auto* array = value.array()) {
    for (const JsonValue& item : *array) CheckReferences(item);
  }
  if (value.object() == nullptr) return;
  for (const auto& [key, item] : *value.object()) {
    CheckReferences(item);
    if (key != "$ref") continue;
    const JsonValue* at = &Document();
    std::string path = item.string()->substr(2);  // without "#/"
    while (at != nullptr && !path.empty()) {
      const size_t slash = std::min(path.find('/'), path.size());
      at = at->Find(path.substr(0, slash));
      path.erase(0, slash + 1);
    }
    EXPECT_NE(at, nullptr) << *item.string();
  }
}

TEST(OpenApi, RefersToWhatIsThere) {
  CheckReferences(Document());
}

// What a description promises of an answer, one level deep: members and their kinds.
void CheckShape(const JsonValue& schema, const JsonValue& answer, const std::string& where) {
  const JsonValue* resolved = &schema;
  if (const JsonValue* reference = schema.Find("$ref")) {
    resolved =
        Document()
            .Find("components")
            ->Find("schemas")
            ->Find(reference->string()->substr(std::string_view("#/components/schemas/").size()));
  }
  const JsonValue* required = resolved->Find("required");
  if (required == nullptr) return;
  for (const JsonValue& name : *required->array()) {
    EXPECT_NE(answer.Find(*name.string()), nullptr) << where << " lacks " << *name.string();
  }
}

TEST(OpenApi, GivesExamplesThatAreAnswered) {
  StubBackend backend([](const std::string&) { return "<|channel|>final<|message|>Hi"; });
  HttpClient client = backend.Connect();
  int asked = 0;
  for (const Operation& operation : Operations()) {
    const JsonValue* body = operation.about->Find("requestBody");
    if (operation.path.find('{') != std::string::npos) continue;
    std::string text;
    if (body != nullptr) {
      text = WriteJson(*body->Find("content")->Find("application/json")->Find("example"));
    }
    const auto reply = client.Ask(operation.method, operation.path, text);
    ASSERT_TRUE(reply.ok()) << operation.path;
    EXPECT_EQ(reply->status, 200) << operation.path << reply->body;
    ++asked;
    const JsonValue* content = operation.about->Find("responses")->Find("200")->Find("content");
    if (content == nullptr || content->Find("application/json") == nullptr) continue;
    const auto answer = ParseJson(reply->body);
    ASSERT_TRUE(answer.ok()) << operation.path << reply->body;
    CheckShape(*content->Find("application/json")->Find("schema"), *answer, operation.path);
  }
  EXPECT_GT(asked, 10);
}

}  // namespace
}  // namespace rose
