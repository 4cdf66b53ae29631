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

// Every field that the server looks at is described: one that is refused when it holds nonsense.
TEST(OpenApi, DescribesEveryFieldThatIsRead) {
  StubBackend backend([](const std::string&) { return "<|channel|>final<|message|>Hi"; });
  HttpClient client = backend.Connect();
  // What OpenAI, Anthropic and vLLM have, and some more.
  const char* names[] = {"add_generation_prompt",
                         "add_special_tokens",
                         "allowed_token_ids",
                         "audio",
                         "background",
                         "bad_words",
                         "best_of",
                         "cache_salt",
                         "chat_template",
                         "chat_template_kwargs",
                         "continue_final_message",
                         "conversation",
                         "documents",
                         "echo",
                         "enable_response_messages",
                         "frequency_penalty",
                         "function_call",
                         "functions",
                         "guided_choice",
                         "guided_grammar",
                         "guided_json",
                         "guided_regex",
                         "ignore_eos",
                         "include",
                         "include_reasoning",
                         "include_stop_str_in_output",
                         "input",
                         "instructions",
                         "logit_bias",
                         "logprob_token_ids",
                         "logprobs",
                         "max_completion_tokens",
                         "max_output_tokens",
                         "max_tokens",
                         "max_tool_calls",
                         "messages",
                         "metadata",
                         "min_p",
                         "min_tokens",
                         "modalities",
                         "model",
                         "n",
                         "output_config",
                         "parallel_tool_calls",
                         "prediction",
                         "presence_penalty",
                         "previous_input_messages",
                         "previous_response_id",
                         "priority",
                         "prompt",
                         "prompt_cache_key",
                         "prompt_logprobs",
                         "reasoning",
                         "reasoning_effort",
                         "repetition_penalty",
                         "response_format",
                         "return_token_ids",
                         "return_token_strs",
                         "return_tokens_as_token_ids",
                         "safety_identifier",
                         "seed",
                         "service_tier",
                         "skip_special_tokens",
                         "stop",
                         "stop_sequences",
                         "stop_token_ids",
                         "store",
                         "stream",
                         "stream_options",
                         "structured_outputs",
                         "suffix",
                         "system",
                         "temperature",
                         "text",
                         "thinking",
                         "thinking_token_budget",
                         "tool_choice",
                         "tools",
                         "top_k",
                         "top_logprobs",
                         "top_p",
                         "truncate_prompt_tokens",
                         "truncation",
                         "use_beam_search",
                         "user",
                         "verbosity"};
  int read = 0;
  for (const char* path :
       {"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"}) {
    const JsonValue& content = *Document()
                                    .Find("paths")
                                    ->Find(path)
                                    ->Find("post")
                                    ->Find("requestBody")
                                    ->Find("content")
                                    ->Find("application/json");
    const std::string schema = *content.Find("schema")->Find("$ref")->string();
    const JsonValue& fields = *Document()
                                   .Find("components")
                                   ->Find("schemas")
                                   ->Find(schema.substr(schema.rfind('/') + 1))
                                   ->Find("properties");
    for (const char* name : names) {
      JsonValue::Object body;
      for (const auto& member : *content.Find("example")->object())
        if (member.first != name) body.push_back(member);
      const JsonValue none{JsonValue::Object{{"none", JsonValue(std::string("such"))}}};
      body.emplace_back(name, JsonValue(JsonValue::Array{none}));
      const auto reply = client.Ask("POST", path, WriteJson(JsonValue(std::move(body))));
      ASSERT_TRUE(reply.ok());
      const auto answer = ParseJson(reply->body);
      const JsonValue* error = answer->Find("error");
      if (reply->status == 200) continue;
      ++read;
      const std::string& why = *error->Find("message")->string();
      // A field that is refused whatever it holds need not be there.
      if (why.find("not supported by this server") != why.npos ||
          why.find("is a field of") != why.npos)
        continue;
      EXPECT_TRUE(why.starts_with(name)) << path << " " << name << ": " << why;
      EXPECT_NE(fields.Find(name), nullptr) << path << " reads " << name << ": " << why;
    }
  }
  EXPECT_GT(read, 100);
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
