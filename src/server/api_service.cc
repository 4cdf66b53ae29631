#include "server/api_service.h"

#include <ctime>
#include <string_view>
#include <utility>
#include <variant>

#include "api/chat_completions.h"
#include "api/completions.h"
#include "api/messages.h"
#include "api/models.h"
#include "api/responses_answer.h"
#include "server/exchange.h"
#include "server/openapi.h"
#include "server/responses.h"

namespace rose {
namespace {

HttpResponse MessagesError(const ApiError& error) {
  return ErrorResponseAt("/v1/messages", error);
}

}  // namespace

struct ApiService::Route {
  std::string_view method;
  std::string_view path;  // a prefix if it ends in '/'
  void (ApiService::*handle)(HttpRequest, Writer);

  bool Fits(std::string_view asked) const {
    if (!path.ends_with('/')) return asked == path;
    return asked.starts_with(path) && asked.size() > path.size();
  }
};

std::span<const ApiService::Route> ApiService::AllRoutes() {
  static constexpr Route kRoutes[] = {
      {"GET", "/health", &ApiService::Health},
      {"GET", "/ping", &ApiService::Ping},
      {"POST", "/ping", &ApiService::Ping},
      {"GET", "/version", &ApiService::Version},
      {"GET", "/load", &ApiService::Load},
      {"GET", "/openapi.json", &ApiService::OpenApi},
      {"GET", "/metrics", &ApiService::MetricsText},
      {"GET", "/v1/models", &ApiService::Models},
      {"GET", "/v1/models/", &ApiService::Model},
      {"POST", "/v1/chat/completions", &ApiService::ChatCompletions},
      {"POST", "/v1/messages", &ApiService::Messages},
      {"POST", "/v1/messages/count_tokens", &ApiService::CountMessageTokens},
      {"POST", "/v1/responses", &ApiService::Responses},
      {"GET", "/v1/responses/", &ApiService::ResponseById},
      {"POST", "/v1/responses/", &ApiService::ResponseById},
      {"DELETE", "/v1/responses/", &ApiService::ResponseById},
      {"POST", "/v1/completions", &ApiService::Completions},
      {"POST", "/v1/chat/completions/render", &ApiService::RenderChat},
      {"POST", "/v1/completions/render", &ApiService::RenderText},
      {"POST", "/tokenize", &ApiService::ToTokens},
      {"POST", "/detokenize", &ApiService::FromTokens},
  };
  return kRoutes;
}

std::vector<std::pair<std::string_view, std::string_view>> ApiService::Routes() {
  std::vector<std::pair<std::string_view, std::string_view>> routes;
  for (const Route& route : AllRoutes()) routes.emplace_back(route.method, route.path);
  return routes;
}

// The first route that fits a request. None: `refusal` is the answer.
const ApiService::Route* ApiService::FindRoute(const HttpRequest& request, HttpResponse& refusal) {
  const std::string_view method =
      request.method == "HEAD" ? "GET" : std::string_view(request.method);
  std::string allowed;
  for (const Route& route : AllRoutes()) {
    if (!route.Fits(request.path)) continue;
    if (route.method == method) return &route;
    allowed += allowed.empty() ? "" : ", ";
    allowed += route.method;
  }
  const std::string_view path = request.path;
  if (allowed.empty()) {
    refusal = ErrorResponseAt(
        path, {.http_status = 404,
               .message = StrCat("There is nothing at '", request.path,
                                 "'. The API is under /v1, such as /v1/chat/completions.")});
  } else {
    refusal = ErrorResponseAt(path, {.http_status = 405,
                                     .message = StrCat("'", request.path, "' takes ", allowed,
                                                       ", not ", request.method, ".")});
    refusal.headers.emplace_back("Allow", allowed);
  }
  return nullptr;
}

void ApiService::Handle(HttpRequest request, std::shared_ptr<ResponseWriter> writer) {
  HttpResponse refusal;
  const Route* route = FindRoute(request, refusal);
  if (route == nullptr) return writer->Send(std::move(refusal));
  writer->SetRoute(route->path);
  (this->*route->handle)(std::move(request), std::move(writer));
}

void ApiService::SetReady(Engine& engine, ApiContext context,
                          const ResponseStoreLimits& responses) {
  ROSE_CHECK(backend_ == nullptr, "ready only once");
  responses_ = std::make_unique<ResponseStore>(responses);
  context.responses = responses_.get();
  backend_ = std::make_unique<const Backend>(
      Backend{engine, std::move(context), static_cast<int64_t>(std::time(nullptr))});
  ready_ = backend_.get();
}

const ApiService::Backend* ApiService::RequireBackend(const Writer& writer,
                                                      Exchange::ErrorForm error_form) const {
  const Backend* backend = ready_;
  if (backend == nullptr) {
    writer->Send(error_form({.http_status = 503, .message = "The model is still being loaded."}));
  }
  return backend;
}

void ApiService::Health(HttpRequest, Writer writer) {
  const Backend* backend = RequireBackend(writer);
  if (backend == nullptr) return;
  if (draining_) return writer->Send(ErrorResponse(503, "The server is shutting down."));
  if (!backend->engine.healthy()) {
    return writer->Send(ErrorResponse(503, "The engine has failed; restart the server."));
  }
  writer->Send({.content_type = ""});
}

void ApiService::Ping(HttpRequest request, Writer writer) {
  Health(std::move(request), std::move(writer));
}

void ApiService::Version(HttpRequest, Writer writer) {
  writer->Send({.body = R"({"version":")" ROSE_VERSION R"("})"});
}

void ApiService::OpenApi(HttpRequest, Writer writer) {
  writer->Send({.body = std::string(OpenApiText())});
}

void ApiService::Load(HttpRequest, Writer writer) {
  const Backend* backend = RequireBackend(writer);
  if (backend == nullptr) return;
  const EngineStats stats = backend->engine.stats();
  writer->Send({.body = StrCat(R"({"server_load":)", stats.running + stats.waiting, "}")});
}

void ApiService::MetricsText(HttpRequest, Writer writer) {
  const Backend* backend = RequireBackend(writer);
  if (backend == nullptr) return;
  writer->Send({.content_type = "text/plain; version=0.0.4; charset=utf-8",
                .body = metrics_.Text(backend->context.models.front(), backend->engine.stats())});
}

void ApiService::Models(HttpRequest, Writer writer) {
  const Backend* backend = RequireBackend(writer);
  if (backend == nullptr) return;
  writer->Send({.body = ModelsBody(backend->context, backend->created)});
}

void ApiService::Model(HttpRequest request, Writer writer) {
  const Backend* backend = RequireBackend(writer);
  if (backend == nullptr) return;
  const std::string_view name =
      std::string_view(request.path).substr(std::string_view("/v1/models/").size());
  auto body = ModelBody(backend->context, name, backend->created);
  if (const auto* error = std::get_if<ApiError>(&body)) {
    return writer->Send(ErrorResponse(*error));
  }
  writer->Send({.body = std::move(std::get<std::string>(body))});
}

void ApiService::ChatCompletions(HttpRequest request, Writer writer) {
  Generate(std::move(request), std::move(writer), &PrepareChatCompletion);
}

void ApiService::Responses(HttpRequest request, Writer writer) {
  Generate(std::move(request), std::move(writer), &PrepareResponse);
}

void ApiService::ResponseById(HttpRequest request, Writer writer) {
  if (RequireBackend(writer) == nullptr) return;
  if (request.method == "POST") return CancelResponse(*responses_, request, *writer);
  if (request.method == "DELETE") return DeleteResponse(*responses_, request, *writer);
  GetResponse(*responses_, request, std::move(writer));
}

void ApiService::Stop() {
  workers_.Stop();
  // Those that follow a response hold on to their connections.
  if (responses_) responses_->Clear();
}

void ApiService::Messages(HttpRequest request, Writer writer) {
  Generate(std::move(request), std::move(writer), &PrepareMessages, &MessagesError);
}

void ApiService::CountMessageTokens(HttpRequest request, Writer writer) {
  AnswerWith(std::move(request), std::move(writer), &rose::CountMessageTokens, &MessagesError);
}

void ApiService::Completions(HttpRequest request, Writer writer) {
  Generate(std::move(request), std::move(writer), &PrepareCompletion);
}

void ApiService::RenderChat(HttpRequest request, Writer writer) {
  AnswerWith(std::move(request), std::move(writer), &RenderChatCompletion);
}

void ApiService::RenderText(HttpRequest request, Writer writer) {
  AnswerWith(std::move(request), std::move(writer), &RenderCompletion);
}

void ApiService::ToTokens(HttpRequest request, Writer writer) {
  AnswerWith(std::move(request), std::move(writer), &Tokenize);
}

void ApiService::FromTokens(HttpRequest request, Writer writer) {
  AnswerWith(std::move(request), std::move(writer), &Detokenize);
}

// Counted for as long as it lives.
struct ApiService::Body {
  Body(std::string body, std::atomic<int64_t>& pending)
      : text(std::move(body)), pending_bytes(pending) {
    pending_bytes += static_cast<int64_t>(text.size());
  }
  ~Body() { pending_bytes -= static_cast<int64_t>(text.size()); }
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;

  const std::string text;
  std::atomic<int64_t>& pending_bytes;
};

std::shared_ptr<const ApiService::Body> ApiService::TakeBody(HttpRequest& request,
                                                             const Writer& writer,
                                                             Exchange::ErrorForm error_form) {
  if (pending_bytes_ + static_cast<int64_t>(request.body.size()) > max_pending_bytes_) {
    writer->Send(error_form(
        {.http_status = 503, .message = "The server is busy reading requests; try again later."}));
    return nullptr;
  }
  return std::make_shared<const Body>(std::move(request.body), pending_bytes_);
}

void ApiService::Generate(HttpRequest request, Writer writer, PrepareCall prepare,
                          Exchange::ErrorForm error_form) {
  const Backend* backend = RequireBackend(writer, error_form);
  if (backend == nullptr) return;
  const auto body = TakeBody(request, writer, error_form);
  if (body == nullptr) return;
  auto exchange =
      std::make_shared<Exchange>(backend->engine, metrics_, std::move(writer), error_form);
  exchange->WatchClient();
  workers_.Post([exchange, backend, prepare, body] {
    const auto now = static_cast<int64_t>(std::time(nullptr));
    exchange->Prepare([&] { return prepare(body->text, backend->context, now); });
  });
}

void ApiService::AnswerWith(HttpRequest request, Writer writer, ReplyCall reply,
                            Exchange::ErrorForm error_form) {
  const Backend* backend = RequireBackend(writer, error_form);
  if (backend == nullptr) return;
  const auto body = TakeBody(request, writer, error_form);
  if (body == nullptr) return;
  workers_.Post([backend, reply, error_form, writer = std::move(writer), body] {
    const auto now = static_cast<int64_t>(std::time(nullptr));
    auto answer = std::make_shared<Reply>(reply(body->text, backend->context, now));
    writer->Post([writer, answer, error_form] {
      if (const auto* error = std::get_if<ApiError>(answer.get()))
        return writer->Send(error_form(*error));
      writer->Send({.body = std::move(std::get<std::string>(*answer))});
    });
  });
}

}  // namespace rose
