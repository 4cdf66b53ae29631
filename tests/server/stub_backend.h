// A server on a free port over the engine's loop and an executor that replays answers.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "chat/dialects.h"
#include "engine/stub_executor.h"
#include "server/api_service.h"
#include "server/http_client.h"

namespace rose {

// Waits for what another thread brings about; the test fails if it never does.
template <typename Condition>
void WaitFor(const Condition& condition, const char* what) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << what;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

struct StubBackend {
  using Answer = std::function<std::string(const std::string& prompt)>;

  explicit StubBackend(Answer answer, double tokens_per_second = 0, EngineConfig config = {},
                       HttpServerConfig http = {}, const Dialect& dialect = HarmonyDialect())
      : tokenizer(dialect.tokenizer), format(dialect.Format()) {
    StubOptions options;
    // Asked anew for every token: remembered.
    options.answer = [this, answer](std::span<const int32_t> prompt) {
      std::vector<int32_t>& ids = answers[{prompt.begin(), prompt.end()}];
      if (ids.empty()) {
        ids =
            tokenizer.EncodeWithSpecials(answer(tokenizer.Decode({prompt.begin(), prompt.end()})));
      }
      return ids;
    };
    options.end_id = format->stop_ids()[0];
    options.tokens_per_second = tokens_per_second;
    Start(CreateStubExecutor(std::move(options)), config, std::move(http));
  }
  explicit StubBackend(std::unique_ptr<Executor> executor)
      : tokenizer(HarmonyDialect().tokenizer), format(HarmonyDialect().Format()) {
    Start(std::move(executor), {}, {});
  }
  ~StubBackend() {
    server->Stop();
    service.Stop();
    engine.reset();
  }

  void Start(std::unique_ptr<Executor> executor, const EngineConfig& config,
             HttpServerConfig http) {
    http.port = 0;
    http.on_finished = [this](const AccessRecord& record) {
      const std::lock_guard lock(mutex);
      records.push_back(record);
      service.OnFinished(record);
    };
    server = std::make_unique<HttpServer>(
        std::move(http), [this](HttpRequest request, std::shared_ptr<ResponseWriter> writer) {
          service.Handle(std::move(request), std::move(writer));
        });
    ROSE_CHECK(server->Start().ok(), "cannot listen");
    engine = CreateEngine(config, std::move(executor), CreatePlainDecoder());
    ApiContext context;
    context.models = {"stub", "org/alias"};
    context.format = format.get();
    context.tokenizer = &tokenizer;
    context.max_context = engine->max_context();
    context.vocab = engine->vocab();
    context.fixed_date = "2026-05-05";
    service.SetReady(*engine, context);
  }

  HttpClient Connect() { return HttpClient::Connect("127.0.0.1", server->port()).value(); }
  HttpReply Ask(std::string_view method, std::string_view path, std::string_view body = {}) {
    HttpClient client = Connect();
    return client.Ask(method, path, body).value();
  }
  // Nothing runs or waits, and all pages are free.
  void ExpectIdle() {
    WaitFor(
        [&] {
          const EngineStats stats = engine->stats();
          return stats.running == 0 && stats.waiting == 0 && stats.pages_used == 0;
        },
        "the engine is not idle");
  }

  const Tokenizer& tokenizer;
  std::map<std::vector<int32_t>, std::vector<int32_t>> answers;  // by prompt, the engine's thread
  std::unique_ptr<ChatFormat> format;
  std::mutex mutex;
  std::vector<AccessRecord> records;
  ApiService service;
  std::unique_ptr<HttpServer> server;
  std::unique_ptr<Engine> engine;
};

}  // namespace rose
