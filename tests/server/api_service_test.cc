// The whole way of a request over loopback, without a model: HTTP, JSON, Harmony, the engine's
// loop, and an executor that replays answers.
#include "server/api_service.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "server/stub_backend.h"

namespace rose {
namespace {

constexpr char kThoughtAndAnswer[] =
    "<|channel|>analysis<|message|>Think.<|end|>"
    "<|start|>assistant<|channel|>final<|message|>Hi \"you\"!";

using Backend = StubBackend;

std::string Body(std::string_view text, std::string_view more = {}) {
  std::string body = R"({"messages":[{"role":"user","content":)";
  AppendJsonString(body, text);
  return body.append("}]").append(more).append("}");
}

JsonValue Json(std::string_view text) {
  auto value = ParseJson(text);
  EXPECT_TRUE(value.ok()) << text;
  return value.ok() ? *value : JsonValue();
}

// The member at a path such as {"choices", "0", "delta"}; null if there is none.
JsonValue At(const JsonValue& json, const std::vector<std::string>& path) {
  const JsonValue* value = &json;
  for (const std::string& step : path) {
    if (value->array() != nullptr) {
      const size_t index = std::stoul(step);
      if (index >= value->array()->size()) return JsonValue();
      value = &(*value->array())[index];
    } else if (value = value->Find(step); value == nullptr) {
      return JsonValue();
    }
  }
  return *value;
}

std::string Text(const JsonValue& json, const std::vector<std::string>& path) {
  const JsonValue value = At(json, path);
  return value.string() != nullptr ? *value.string() : WriteJson(value);
}

// What a stream says: its texts joined.
struct Streamed {
  std::string content, reasoning, finish, arguments, tool;
  int events = 0;
  bool role_first = false;
  bool done = false;
};

void Add(std::string_view data, Streamed& all) {
  EXPECT_FALSE(all.done) << "something after [DONE]: " << data;
  if (data == "[DONE]") {
    all.done = true;
    return;
  }
  const JsonValue chunk = Json(data);
  const JsonValue delta = At(chunk, {"choices", "0", "delta"});
  const auto string_of = [&](std::vector<std::string> path) {
    const JsonValue value = At(delta, path);
    return value.string() != nullptr ? *value.string() : std::string();
  };
  if (all.events++ == 0) all.role_first = string_of({"role"}) == "assistant";
  all.content += string_of({"content"});
  all.reasoning += string_of({"reasoning"});
  all.arguments += string_of({"tool_calls", "0", "function", "arguments"});
  all.tool += string_of({"tool_calls", "0", "function", "name"});
  const JsonValue finish = At(chunk, {"choices", "0", "finish_reason"});
  if (finish.string() != nullptr) all.finish = *finish.string();
}

Streamed ReadStream(HttpClient& client) {
  Streamed all;
  SseReader events;
  const auto reply = client.ReadReply([&](std::string_view piece) {
    events.Push(piece, [&](std::string_view data) { Add(data, all); });
    return true;
  });
  EXPECT_TRUE(reply.ok()) << reply.status().message();
  if (reply.ok()) {
    EXPECT_EQ(reply->status, 200) << reply->body;
    EXPECT_EQ(FindHeader(reply->headers, "Content-Type"), "text/event-stream; charset=utf-8");
  }
  return all;
}

constexpr std::string_view kChat = "/v1/chat/completions";

TEST(ApiService, AnswersInOnePiece) {
  Backend backend([](const std::string&) { return kThoughtAndAnswer; });
  const HttpReply reply = backend.Ask("POST", kChat, Body("hello", R"(,"model":"org/alias")"));
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(FindHeader(reply.headers, "Content-Type"), "application/json");
  const JsonValue json = Json(reply.body);
  EXPECT_EQ(Text(json, {"object"}), "chat.completion");
  EXPECT_EQ(Text(json, {"model"}), "org/alias");
  EXPECT_EQ(Text(json, {"choices", "0", "message", "content"}), "Hi \"you\"!");
  EXPECT_EQ(Text(json, {"choices", "0", "message", "reasoning"}), "Think.");
  EXPECT_EQ(Text(json, {"choices", "0", "finish_reason"}), "stop");
  backend.ExpectIdle();
}

TEST(ApiService, AnswersInPieces) {
  Backend backend([](const std::string&) { return kThoughtAndAnswer; });
  HttpClient client = backend.Connect();
  // Twice on one connection.
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(client.SendRequest("POST", kChat, Body("hello", R"(,"stream":true)")).ok());
    const Streamed all = ReadStream(client);
    EXPECT_TRUE(all.role_first);
    EXPECT_TRUE(all.done);
    EXPECT_EQ(all.content, "Hi \"you\"!");
    EXPECT_EQ(all.reasoning, "Think.");
    EXPECT_EQ(all.finish, "stop");
  }
}

TEST(ApiService, GivesToolCallsBothWays) {
  Backend backend([](const std::string&) {
    return "<|channel|>commentary to=functions.add <|constrain|>json<|message|>{\"a\":1}<|call|>";
  });
  const std::string tools =
      R"(,"tools":[{"type":"function","function":{"name":"add","parameters":{"type":"object"}}}])";
  const HttpReply reply = backend.Ask("POST", kChat, Body("1?", tools));
  const JsonValue json = Json(reply.body);
  const std::vector<std::string> call = {"choices", "0", "message", "tool_calls", "0", "function"};
  EXPECT_EQ(Text(At(json, call), {"name"}), "add") << reply.body;
  EXPECT_EQ(Text(At(json, call), {"arguments"}), R"({"a":1})");
  EXPECT_EQ(Text(json, {"choices", "0", "finish_reason"}), "tool_calls");

  HttpClient client = backend.Connect();
  ASSERT_TRUE(client.SendRequest("POST", kChat, Body("1?", tools + R"(,"stream":true)")).ok());
  const Streamed all = ReadStream(client);
  EXPECT_EQ(all.tool, "add");
  EXPECT_EQ(all.arguments, R"({"a":1})");
  EXPECT_EQ(all.finish, "tool_calls");
}

constexpr std::string_view kCompletions = "/v1/completions";

TEST(ApiService, CompletesRawText) {
  Backend backend([](const std::string& prompt) { return prompt == "Once" ? " upon" : " again"; });
  const HttpReply reply = backend.Ask(
      "POST", kCompletions, R"({"prompt":["Once","Twice"],"echo":true,"logprobs":1,"n":2})");
  ASSERT_EQ(reply.status, 200) << reply.body;
  const JsonValue json = Json(reply.body);
  EXPECT_EQ(Text(json, {"object"}), "text_completion");
  EXPECT_EQ(Text(json, {"choices", "0", "text"}), "Once upon");
  EXPECT_EQ(Text(json, {"choices", "1", "text"}), "Once upon");
  EXPECT_EQ(Text(json, {"choices", "3", "text"}), "Twice again");
  EXPECT_EQ(Text(json, {"choices", "3", "finish_reason"}), "stop");
  // The engine's made-up logprobs: of the prompt, of the answer, and of the stop token.
  EXPECT_EQ(Text(json, {"choices", "0", "logprobs", "token_logprobs"}),
            "[null,-0.1,-0.1,-0.1,-0.1,-0.1,-0.1,-0.1,-0.1,-0.1]");
  HttpClient client = backend.Connect();
  ASSERT_TRUE(client.SendRequest("POST", kCompletions, R"({"prompt":"Once","stream":true})").ok());
  std::string text;
  const auto streamed = client.ReadReply([&](std::string_view piece) {
    text += piece;
    return true;
  });
  ASSERT_TRUE(streamed.ok());
  EXPECT_NE(text.find(R"("text":" ")"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("data: [DONE]\n\n")) << text;
  EXPECT_EQ(backend.Ask("POST", kCompletions, R"({"prompt":""})").status, 400);
  backend.ExpectIdle();
}

// What the render endpoints and /tokenize say is what the engine then computes.
TEST(ApiService, RendersWhatItWouldCompute) {
  Backend backend([](const std::string&) { return kThoughtAndAnswer; });
  const std::string chat = Body("hi <|end|>", R"(,"reasoning_effort":"low")");
  const std::string text = R"({"prompt":"<|start|>x"})";
  const JsonValue rendered = Json(backend.Ask("POST", "/v1/chat/completions/render", chat).body);
  const JsonValue tokens = Json(backend.Ask("POST", "/tokenize", chat).body);
  const JsonValue texts = Json(backend.Ask("POST", "/v1/completions/render", text).body);
  EXPECT_EQ(backend.Ask("POST", kChat, chat).status, 200);
  EXPECT_EQ(backend.Ask("POST", kCompletions, text).status, 200);
  backend.ExpectIdle();
  ASSERT_EQ(backend.answers.size(), 2u);
  for (const JsonValue& ids :
       {At(rendered, {"token_ids"}), At(tokens, {"tokens"}), At(texts, {"0", "token_ids"})}) {
    std::vector<int32_t> prompt;
    for (const JsonValue& id : *ids.array()) prompt.push_back(*id.AsInteger());
    EXPECT_TRUE(backend.answers.contains(prompt)) << WriteJson(ids);
  }
  EXPECT_EQ(backend.Ask("POST", "/detokenize", R"({"tokens":[104,105]})").body,
            R"({"prompt":"hi"})");
  EXPECT_EQ(backend.Ask("POST", "/tokenize", R"({"prompt":7})").status, 400);
}

TEST(ApiService, NamesItsModels) {
  Backend backend([](const std::string&) { return "x"; });
  EXPECT_EQ(Text(Json(backend.Ask("GET", "/v1/models").body), {"data", "1", "id"}), "org/alias");
  for (const char* path : {"/v1/models/org/alias", "/v1/models/org%2Falias"}) {
    EXPECT_EQ(Text(Json(backend.Ask("GET", path).body), {"id"}), "org/alias");
  }
  EXPECT_EQ(backend.Ask("GET", "/v1/models/other").status, 404);
  EXPECT_EQ(backend.Ask("GET", "/health").status, 200);
  EXPECT_EQ(backend.Ask("GET", "/health").body, "");
  EXPECT_EQ(backend.Ask("HEAD", "/health").status, 200);
  EXPECT_EQ(backend.Ask("POST", "/ping").status, 200);
  EXPECT_EQ(Text(Json(backend.Ask("GET", "/version").body), {"version"}), ROSE_VERSION);
}

struct BadRequest {
  std::string name, method, path, body;
  int status;
  std::string type, param, code;  // "null" = null
};

TEST(ApiService, RefusesWithAReason) {
  EngineConfig config;
  config.max_context = 1000;
  Backend backend([](const std::string&) { return "x"; }, 0, config);
  const BadRequest kCases[] = {
      {"no JSON", "POST", "/v1/chat/completions", "{", 400, "BadRequestError", "null", "null"},
      {"empty", "POST", "/v1/chat/completions", "", 400, "BadRequestError", "null", "null"},
      {"NUL", "POST", "/v1/chat/completions", std::string(3, '\0'), 400, "BadRequestError", "null",
       "null"},
      {"invalid UTF-8", "POST", "/v1/chat/completions", "{\"messages\":\"\xff\"}", 400,
       "BadRequestError", "null", "null"},
      {"brackets", "POST", "/v1/chat/completions", std::string(100'000, '['), 400,
       "BadRequestError", "null", "null"},
      {"no messages", "POST", "/v1/chat/completions", "{}", 400, "BadRequestError", "messages",
       "null"},
      {"other model", "POST", "/v1/chat/completions", Body("a", R"(,"model":"gpt-4")"), 404,
       "NotFoundError", "model", "model_not_found"},
      {"prompt too long", "POST", "/v1/chat/completions", Body(std::string(1000, 'a')), 400,
       "BadRequestError", "messages", "context_length_exceeded"},
      {"temperature", "POST", "/v1/chat/completions", Body("a", R"(,"temperature":-1)"), 400,
       "BadRequestError", "temperature", "null"},
      {"no such path", "POST", "/chat/completions", Body("a"), 404, "NotFoundError", "null",
       "null"},
      {"no such method", "PUT", "/v1/chat/completions", "", 405, "BadRequestError", "null", "null"},
      {"GET of chat", "GET", "/v1/chat/completions", "", 405, "BadRequestError", "null", "null"},
  };
  for (const BadRequest& bad : kCases) {
    const HttpReply reply = backend.Ask(bad.method, bad.path, bad.body);
    EXPECT_EQ(reply.status, bad.status) << bad.name;
    const JsonValue json = Json(reply.body);
    EXPECT_EQ(Text(json, {"error", "type"}), bad.type) << bad.name << reply.body;
    EXPECT_EQ(Text(json, {"error", "param"}), bad.param) << bad.name << reply.body;
    EXPECT_EQ(Text(json, {"error", "code"}), bad.code) << bad.name << reply.body;
    EXPECT_GT(Text(json, {"error", "message"}).size(), 10u) << bad.name;
  }
  EXPECT_EQ(FindHeader(backend.Ask("PUT", kChat).headers, "Allow"), "POST");
  // And goes on.
  EXPECT_EQ(backend.Ask("POST", kChat, Body("a")).status, 200);
}

// A request is understood whatever type its body claims to have, as curl's default.
TEST(ApiService, RefusesInTheFormOfThePathsClients) {
  Backend backend([](const std::string&) { return kThoughtAndAnswer; });
  for (const char* path : {"/v1/messages", "/v1/messages/count_tokens"}) {
    const HttpReply reply = backend.Ask("GET", path);
    EXPECT_EQ(reply.status, 405);
    EXPECT_EQ(FindHeader(reply.headers, "Allow"), "POST");
    EXPECT_EQ(Text(Json(reply.body), {"type"}), "error") << reply.body;
    EXPECT_EQ(Text(Json(reply.body), {"error", "type"}), "invalid_request_error") << reply.body;
  }
  // Of an error that is found while the request is read, too.
  HttpClient client = backend.Connect();
  ASSERT_TRUE(client
                  .SendRaw("POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: "
                           "99999999999\r\n\r\n")
                  .ok());
  const auto large = client.ReadReply();
  EXPECT_EQ(large->status, 413);
  EXPECT_EQ(Text(Json(large->body), {"error", "type"}), "request_too_large") << large->body;
  EXPECT_EQ(Text(Json(backend.Ask("GET", "/v1/messagesx").body), {"error", "type"}),
            "NotFoundError");
  const HttpReply none = backend.Ask("POST", "/v1/messages/batches", "{}");
  EXPECT_EQ(none.status, 404);
  EXPECT_EQ(Text(Json(none.body), {"error", "type"}), "not_found_error") << none.body;
}

TEST(ApiService, TakesAnyContentType) {
  Backend backend([](const std::string&) { return kThoughtAndAnswer; });
  HttpClient client = backend.Connect();
  const auto reply =
      client.Ask("POST", kChat, Body("a"), {{"Content-Type", "application/x-www-form-urlencoded"}});
  EXPECT_EQ(reply->status, 200);
}

TEST(ApiService, SaysThatItIsNotReady) {
  ApiService service;
  HttpServerConfig config;
  config.port = 0;
  HttpServer server(config, [&](HttpRequest request, std::shared_ptr<ResponseWriter> writer) {
    service.Handle(std::move(request), std::move(writer));
  });
  ASSERT_TRUE(server.Start().ok());
  HttpClient client = HttpClient::Connect("127.0.0.1", server.port()).value();
  EXPECT_EQ(client.Ask("GET", "/health")->status, 503);
  EXPECT_EQ(client.Ask("GET", "/v1/models")->status, 503);
  EXPECT_EQ(client.Ask("POST", kChat, Body("a"))->status, 503);
  EXPECT_EQ(client.Ask("GET", "/version")->status, 200);
}

// Bodies that wait for a worker must not fill the memory. Here no worker ever comes.
TEST(ApiService, BoundsTheBodiesThatWait) {
  Backend backend([](const std::string&) { return "x"; });
  ApiService service(/*workers=*/0, /*max_pending_bytes=*/1000);
  ApiContext context;
  context.models = {"stub"};
  context.format = backend.format.get();
  context.tokenizer = &backend.tokenizer;
  context.max_context = backend.engine->max_context();
  context.vocab = backend.engine->vocab();
  service.SetReady(*backend.engine, context);
  HttpServerConfig config;
  config.port = 0;
  HttpServer server(config, [&](HttpRequest request, std::shared_ptr<ResponseWriter> writer) {
    service.Handle(std::move(request), std::move(writer));
  });
  ASSERT_TRUE(server.Start().ok());
  HttpClient first = HttpClient::Connect("127.0.0.1", server.port()).value();
  HttpClient second = HttpClient::Connect("127.0.0.1", server.port()).value();
  ASSERT_TRUE(first.SendRequest("POST", kChat, Body(std::string(700, 'a'))).ok());
  // Answered on the same thread, after the first.
  WaitFor([&] { return server.connections() == 2; }, "not both are connected");
  EXPECT_EQ(second.Ask("GET", "/health")->status, 200);
  for (const char* path : {"/v1/chat/completions", "/tokenize", "/v1/messages"}) {
    const auto refused = second.Ask("POST", path, Body(std::string(700, 'b')));
    EXPECT_EQ(refused->status, 503) << path;
    EXPECT_EQ(FindHeader(refused->headers, "Retry-After"), "1") << path;
  }
  server.Stop();
  service.Stop();
}

// Before the first token, in prefill or not, and in mid-stream; one choice and two.
TEST(Case094, AClientThatLeavesCancelsItsRequest) {
  Backend backend([](const std::string&) { return std::string(20'000, 'x'); },
                  /*tokens_per_second=*/100);
  for (const char* more : {"", R"(,"stream":true)", R"(,"n":2)", R"(,"stream":true,"n":2)"}) {
    HttpClient client = backend.Connect();
    ASSERT_TRUE(client.SendRequest("POST", kChat, Body("hello", more)).ok());
    WaitFor([&] { return backend.engine->stats().running > 0; }, "nothing runs");
    client.Close();
    backend.ExpectIdle();
  }
  HttpClient client = backend.Connect();
  ASSERT_TRUE(client.SendRequest("POST", kChat, Body("hello", R"(,"stream":true)")).ok());
  int events = 0;
  EXPECT_FALSE(client.ReadReply([&](std::string_view) { return ++events < 3; }).ok());
  client.Close();
  backend.ExpectIdle();
  WaitFor(
      [&] {
        const std::lock_guard lock(backend.mutex);
        return backend.records.size() == 5;
      },
      "not all are logged");
  const AccessRecord& last = backend.records.back();
  EXPECT_TRUE(last.client_left);
  EXPECT_EQ(last.stats.finish, "cancelled");
  EXPECT_GT(last.stats.prompt_tokens, 0);
  EXPECT_GT(last.stats.completion_tokens, 0);
}

// The text of a stream that says `name`, long enough for many steps.
std::string Verse(const std::string& name) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += StrCat(name, "-", i, " ");
  return text;
}

TEST(ApiService, KeepsManyStreamsApart) {
  constexpr int kStreams = 200;
  Backend backend([](const std::string& prompt) {
    const size_t start = prompt.rfind("stream#");
    const std::string name = prompt.substr(start, prompt.find('<', start) - start);
    return "<|channel|>final<|message|>" + Verse(name);
  });
  std::vector<HttpClient> clients;
  for (int i = 0; i < kStreams; ++i) {
    clients.push_back(backend.Connect());
    ASSERT_TRUE(clients.back()
                    .SendRequest("POST", kChat, Body(StrCat("stream#", i), R"(,"stream":true)"))
                    .ok());
  }
  for (int i = 0; i < kStreams; ++i) {
    const Streamed all = ReadStream(clients[i]);
    EXPECT_EQ(all.content, Verse(StrCat("stream#", i)));
    EXPECT_EQ(all.finish, "stop");
    EXPECT_TRUE(all.done);
  }
  backend.ExpectIdle();
}

TEST(ApiService, AnswersRequestsSentAheadInOrder) {
  Backend backend([](const std::string& prompt) {
    const size_t start = prompt.rfind("stream#");
    return "<|channel|>final<|message|>" + prompt.substr(start, prompt.find('<', start) - start);
  });
  HttpClient client = backend.Connect();
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(client
                    .SendRequest("POST", kChat,
                                 Body(StrCat("stream#", i), i % 2 == 0 ? R"(,"stream":true)" : ""))
                    .ok());
  }
  for (int i = 0; i < 20; ++i) {
    if (i % 2 == 0) {
      EXPECT_EQ(ReadStream(client).content, StrCat("stream#", i));
    } else {
      EXPECT_EQ(Text(Json(client.ReadReply()->body), {"choices", "0", "message", "content"}),
                StrCat("stream#", i));
    }
  }
}

TEST(ApiService, FinishesWhatRunsWhenItDrains) {
  Backend backend([](const std::string&) { return std::string(50, 'x'); },
                  /*tokens_per_second=*/200);
  HttpClient running = backend.Connect(), later = backend.Connect();
  ASSERT_TRUE(running.SendRequest("POST", kChat, Body("a", R"(,"stream":true)")).ok());
  WaitFor([&] { return backend.engine->stats().running > 0; }, "nothing runs");
  backend.service.StartDraining();
  std::jthread drain([&] { backend.engine->Drain(60'000); });
  // Draining begins on another thread: asked until it has.
  WaitFor([&] { return later.Ask("POST", kChat, Body("b"))->status == 503; },
          "still takes requests");
  const HttpReply health = *later.Ask("GET", "/health");
  EXPECT_EQ(health.status, 503);
  EXPECT_EQ(FindHeader(health.headers, "Retry-After"), "1");
  const Streamed all = ReadStream(running);
  EXPECT_EQ(all.content, std::string(50, 'x'));
  EXPECT_TRUE(all.done);
  drain.join();
  EXPECT_TRUE(backend.server->Drain(60'000));
}

// What still runs when the time to drain is over is told so, and its stream ends as streams do.
TEST(ApiService, EndsWhatItCutsOff) {
  Backend backend([](const std::string&) { return std::string(20'000, 'x'); },
                  /*tokens_per_second=*/100);
  HttpClient stream = backend.Connect(), whole = backend.Connect();
  ASSERT_TRUE(stream.SendRequest("POST", kChat, Body("a", R"(,"stream":true)")).ok());
  ASSERT_TRUE(whole.SendRequest("POST", kChat, Body("a")).ok());
  WaitFor([&] { return backend.engine->stats().running == 2; }, "not both run");
  backend.service.StartDraining();
  EXPECT_EQ(backend.engine->Drain(/*timeout_ms=*/0), 2);
  EXPECT_TRUE(backend.server->Drain(60'000));
  const auto reply = stream.ReadReply();
  ASSERT_TRUE(reply.ok()) << reply.status().message();
  EXPECT_NE(reply->body.find(R"(data: {"error":{"message":)"), std::string::npos) << reply->body;
  EXPECT_NE(reply->body.find("ServiceUnavailableError"), std::string::npos) << reply->body;
  EXPECT_TRUE(reply->body.ends_with("data: [DONE]\n\n")) << reply->body;
  EXPECT_EQ(whole.ReadReply()->status, 503);
  backend.server->Stop();  // joins the thread that writes the records
  const std::lock_guard lock(backend.mutex);
  ASSERT_EQ(backend.records.size(), 2u);
  for (const AccessRecord& record : backend.records) {
    EXPECT_FALSE(record.client_left);
    EXPECT_EQ(record.cut_off, "");
    EXPECT_EQ(record.stats.finish, "cancelled");
  }
}

TEST(ApiService, TellsItsLoadAndFigures) {
  Backend backend([](const std::string&) { return std::string(kThoughtAndAnswer) + "<|call|>"; });
  EXPECT_EQ(backend.Ask("GET", "/load").body, R"({"server_load":0})");
  EXPECT_EQ(backend.Ask("POST", kChat, Body("hello", R"(,"stream":true)")).status, 200);
  EXPECT_EQ(backend.Ask("GET", "/nothing").status, 404);
  EXPECT_EQ(backend.Ask("HEAD", "/metrics").status, 200);
  const HttpReply page = backend.Ask("GET", "/metrics");
  EXPECT_EQ(FindHeader(page.headers, "Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
  for (const char* line : {
           "vllm:request_success_total{model_name=\"stub\",engine=\"0\",finished_reason=\"stop\"} "
           "1\n",
           "vllm:num_requests_running{model_name=\"stub\",engine=\"0\"} 0\n",
           "vllm:time_to_first_token_seconds_count{model_name=\"stub\",engine=\"0\"} 1\n",
           "http_requests_total{handler=\"/v1/chat/completions\",method=\"POST\",status=\"2xx\"} "
           "1\n",
           "http_requests_total{handler=\"none\",method=\"GET\",status=\"4xx\"} 1\n",
       }) {
    EXPECT_NE(page.body.find(line), std::string::npos) << line << page.body;
  }
  const std::lock_guard lock(backend.mutex);
  const auto chat = std::find_if(backend.records.begin(), backend.records.end(),
                                 [](const AccessRecord& r) { return r.method == "POST"; });
  EXPECT_GE(chat->stats.queued_ms, 0);
  EXPECT_GE(chat->stats.first_token_ms, chat->stats.queued_ms);
  EXPECT_GE(chat->stats.last_token_ms, chat->stats.first_token_ms);
}

// Text outside of any message is counted, and not shown.
TEST(ApiService, CountsWhatNoFieldCanHold) {
  Backend backend([](const std::string&) {
    return "<|channel|>final<|message|>ok<|end|>stray text<|start|>assistant<|channel|>final"
           "<|message|>ok";
  });
  EXPECT_EQ(backend.Ask("POST", kChat, Body("hello")).body.find("stray"), std::string::npos);
  WaitFor(
      [&] {
        const std::lock_guard lock(backend.mutex);
        return !backend.records.empty();
      },
      "the request is in no record");
  const std::lock_guard lock(backend.mutex);
  EXPECT_EQ(backend.records[0].stats.dropped_bytes, 10);
}

// A device that dies at its first step.
class BrokenExecutor : public Executor {
 public:
  BrokenExecutor() : stub_(CreateStubExecutor({})) {}
  const ExecutorInfo& info() const override { return stub_->info(); }
  void Submit(const StepPlan&) override {}
  StepResult Wait() override { throw CheckFailure("the device is gone"); }

 private:
  std::unique_ptr<Executor> stub_;
};

TEST(ApiService, SaysThatTheEngineFailed) {
  Backend backend(std::make_unique<BrokenExecutor>());
  EXPECT_EQ(backend.Ask("GET", "/health").status, 200);
  const HttpReply reply = backend.Ask("POST", kChat, Body("a"));
  EXPECT_EQ(reply.status, 500);
  EXPECT_EQ(Text(Json(reply.body), {"error", "type"}), "InternalServerError");
  EXPECT_EQ(backend.Ask("POST", kChat, Body("a")).status, 500);
  EXPECT_EQ(backend.Ask("GET", "/health").status, 503);
}

// A step that fails: whoever it belongs to is told, the server stays up and says what it is.
TEST(ApiService, AFailedStepFailsItsRequestsAndTheHealth) {
  std::string reason;
  int asked = 0;
  StubBackend backend(
      [&](const std::string&) {
        ROSE_CHECK(++asked < 3, "device on fire");
        return std::string("fine");
      },
      /*tokens_per_second=*/0, {.on_failure = [&](const std::string& why) { reason = why; }});
  const auto ask = [&](const char* text, bool stream) {
    return backend.Ask("POST", "/v1/chat/completions",
                       StrCat(R"({"messages":[{"role":"user","content":")", text,
                              R"("}],"stream":)", stream ? "true" : "false", "}"));
  };
  EXPECT_EQ(ask("one", false).status, 200);
  EXPECT_EQ(ask("two", false).status, 200);
  EXPECT_EQ(backend.Ask("GET", "/health").status, 200);
  const HttpReply cut = ask("three", true);
  EXPECT_NE(cut.body.find("device on fire"), std::string::npos) << cut.body;
  EXPECT_EQ(ask("four", false).status, 500);
  EXPECT_EQ(backend.Ask("GET", "/health").status, 503);
  EXPECT_EQ(backend.Ask("GET", "/v1/models").status, 200);
  backend.engine.reset();
  EXPECT_NE(reason.find("device on fire"), std::string::npos);
}

}  // namespace
}  // namespace rose
