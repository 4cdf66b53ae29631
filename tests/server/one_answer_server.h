// A whole server over loopback without a model: every question is answered with one text.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/check.h"
#include "chat/byte_tokenizer.h"
#include "engine/stub_executor.h"
#include "server/api_service.h"
#include "server/http_client.h"
#include "server/http_server.h"

namespace rose {

class OneAnswerServer {
 public:
  explicit OneAnswerServer(const std::string& answer, HttpServerConfig http = {},
                           double tokens_per_second = 0)
      : format_(CreateChatFormat("harmony", tokenizer_).value()) {
    StubOptions options;
    const std::vector<int32_t> ids = tokenizer_.EncodeWithSpecials(answer);
    options.answer = [ids](std::span<const int32_t>) { return ids; };
    options.end_id = 200002;
    options.tokens_per_second = tokens_per_second;
    engine_ = CreateEngine({}, CreateStubExecutor(std::move(options)), CreatePlainDecoder());
    ApiContext context;
    context.models = {"stub"};
    context.format = format_.get();
    context.tokenizer = &tokenizer_;
    context.max_context = engine_->max_context();
    context.vocab = engine_->vocab();
    service_.SetReady(*engine_, context);
    http.port = 0;
    server_ = std::make_unique<HttpServer>(
        http, [this](HttpRequest request, std::shared_ptr<ResponseWriter> writer) {
          service_.Handle(std::move(request), std::move(writer));
        });
    ROSE_CHECK(server_->Start().ok(), "cannot listen");
  }
  ~OneAnswerServer() {
    server_->Stop();
    service_.Stop();
    engine_.reset();
  }

  HttpServer& server() { return *server_; }
  Engine& engine() { return *engine_; }
  HttpClient Connect() { return HttpClient::Connect("127.0.0.1", server_->port()).value(); }

 private:
  ByteTokenizer tokenizer_;
  std::unique_ptr<ChatFormat> format_;
  ApiService service_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace rose
