// The routes of the API over one engine: HTTP requests in, engine requests out, and back.
//
// Everything of a request happens on the HTTP server's thread, but for reading and rendering its
// body, which a worker does.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/answer.h"
#include "api/context.h"
#include "api/responses_store.h"
#include "api/tokenize.h"
#include "engine/engine.h"
#include "server/exchange.h"
#include "server/http_server.h"
#include "server/metrics.h"
#include "server/worker_pool.h"

namespace rose {

class ApiService {
 public:
  // `max_pending_bytes`: of all bodies that wait for a worker or are being read by one; a request
  // beyond is answered with 503.
  explicit ApiService(int workers = 2, int64_t max_pending_bytes = int64_t{1} << 30)
      : max_pending_bytes_(max_pending_bytes), workers_(workers) {}

  // The HTTP server's handler. Before SetReady and after StartDraining everything but the cheap
  // questions is answered with 503.
  void Handle(HttpRequest request, std::shared_ptr<ResponseWriter> writer);

  // Called once, from any thread. `engine` outlives Stop and all answers.
  void SetReady(Engine& engine, ApiContext context, const ResponseStoreLimits& responses = {});
  // /health says 503 from now on; the engine's own draining refuses new requests.
  void StartDraining() { draining_ = true; }
  // What the HTTP server's on_finished tells.
  void OnFinished(const AccessRecord& record) { metrics_.ObserveRequest(record); }
  // Its line in the access log could not be written. On the server's thread too.
  void OnLogLineLost() { metrics_.ObserveLostLogLine(); }
  // Method and path of every route; a path that ends in '/' stands for all below it.
  static std::vector<std::pair<std::string_view, std::string_view>> Routes();
  // Joins the workers, forgets the stored responses.
  void Stop();

 private:
  struct Route;
  struct Body;
  using Writer = std::shared_ptr<ResponseWriter>;
  // What exists once the model is loaded.
  struct Backend {
    Engine& engine;
    ApiContext context;
    int64_t created;  // Unix seconds
  };

  static std::span<const Route> AllRoutes();
  static const Route* FindRoute(const HttpRequest& request, HttpResponse& refusal);
  // Null, and the answer given, while there is nothing to ask.
  const Backend* RequireBackend(const Writer& writer,
                                Exchange::ErrorForm error_form = &ErrorResponse) const;
  void Health(HttpRequest request, Writer writer);
  void Ping(HttpRequest request, Writer writer);
  void Version(HttpRequest request, Writer writer);
  void Load(HttpRequest request, Writer writer);
  void OpenApi(HttpRequest request, Writer writer);
  void MetricsText(HttpRequest request, Writer writer);
  void Models(HttpRequest request, Writer writer);
  void Model(HttpRequest request, Writer writer);
  void ChatCompletions(HttpRequest request, Writer writer);
  void Messages(HttpRequest request, Writer writer);
  void CountMessageTokens(HttpRequest request, Writer writer);
  void Responses(HttpRequest request, Writer writer);
  void ResponseById(HttpRequest request, Writer writer);
  void Completions(HttpRequest request, Writer writer);
  void RenderChat(HttpRequest request, Writer writer);
  void RenderText(HttpRequest request, Writer writer);
  void ToTokens(HttpRequest request, Writer writer);
  void FromTokens(HttpRequest request, Writer writer);
  // The body, to be shared with a worker's task; null, and the answer given, if there are too many.
  std::shared_ptr<const Body> TakeBody(HttpRequest& request, const Writer& writer,
                                       Exchange::ErrorForm error_form);
  // An endpoint that generates: `prepare` runs on a worker.
  using PrepareCall = Prepared (*)(std::string_view body, const ApiContext& context, int64_t now);
  void Generate(HttpRequest request, Writer writer, PrepareCall prepare,
                Exchange::ErrorForm error_form = &ErrorResponse);
  // An endpoint that only reads its body: `reply` runs on a worker.
  using ReplyCall = Reply (*)(std::string_view body, const ApiContext& context, int64_t now);
  void AnswerWith(HttpRequest request, Writer writer, ReplyCall reply,
                  Exchange::ErrorForm error_form = &ErrorResponse);

  std::unique_ptr<ResponseStore> responses_;  // with backend_
  std::unique_ptr<const Backend> backend_;
  std::atomic<const Backend*> ready_ = nullptr;  // backend_, once it is set
  std::atomic<bool> draining_ = false;
  Metrics metrics_;  // of the HTTP server's thread
  const int64_t max_pending_bytes_;
  std::atomic<int64_t> pending_bytes_ = 0;
  WorkerPool workers_;  // last: its tasks use the rest
};

}  // namespace rose
