// The whole way of a request over loopback, with a model that writes what a test says: HTTP, JSON,
// the chat format, the engine. Every byte is a token.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "chat/byte_tokenizer.h"
#include "engine/stub_executor.h"
#include "server/api_service.h"
#include "server/http_client.h"

namespace rose {

class ScriptedServer {
 public:
  ScriptedServer() : format_(CreateChatFormat("harmony", tokenizer_).value()) {
    StubOptions options;
    options.answer = [this](std::span<const int32_t> prompt) {
      const std::lock_guard lock(mutex_);
      prompt_.assign(prompt.begin(), prompt.end());
      return answer_;
    };
    options.end_id = 200002;
    HttpServerConfig http;
    http.port = 0;
    server_ = std::make_unique<HttpServer>(
        http, [this](HttpRequest request, std::shared_ptr<ResponseWriter> writer) {
          service_.Handle(std::move(request), std::move(writer));
        });
    ROSE_CHECK(server_->Start().ok(), "cannot listen");
    engine_ = CreateEngine({}, CreateStubExecutor(std::move(options)), CreatePlainDecoder());
    ApiContext context;
    context.models = {"stub"};
    context.format = format_.get();
    context.tokenizer = &tokenizer_;
    context.max_context = engine_->max_context();
    context.vocab = engine_->vocab();
    context.fixed_date = "2026-05-05";
    service_.SetReady(*engine_, context);
  }
  ~ScriptedServer() {
    server_->Stop();
    service_.Stop();
    engine_.reset();
  }

  // What the model writes from now on, markers by their names; <|return|> follows.
  void Script(std::string_view answer) { Script(tokenizer_.EncodeWithSpecials(answer)); }
  void Script(std::vector<int32_t> answer) {
    const std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
  }
  HttpReply Post(std::string_view path, std::string_view body) {
    return HttpClient::Connect("127.0.0.1", server_->port())
        .value()
        .Ask("POST", path, body)
        .value();
  }
  // The prompt of the last request that reached the model.
  std::vector<int32_t> prompt() {
    const std::lock_guard lock(mutex_);
    return prompt_;
  }

 private:
  ByteTokenizer tokenizer_;
  std::unique_ptr<ChatFormat> format_;
  std::mutex mutex_;  // guards answer_, prompt_
  std::vector<int32_t> answer_, prompt_;
  ApiService service_;
  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace rose
