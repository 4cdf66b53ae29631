// One generating request under way, of any endpoint: from its body to the last byte of its answer.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "api/answer.h"
#include "engine/engine.h"
#include "server/http_server.h"
#include "server/metrics.h"

namespace rose {

// Shared by the worker that prepares it and the engine's callbacks; whoever lets go last ends the
// request. All but Prepare run on the HTTP server's thread.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  // The endpoint's form of an error that is its whole answer.
  using ErrorForm = HttpResponse (*)(const ApiError&);

  // `engine` and `metrics` outlive the exchange, and so does what `prepare` and its answer use.
  Exchange(Engine& engine, Metrics& metrics, std::shared_ptr<ResponseWriter> writer,
           ErrorForm error_form = &ErrorResponse)
      : engine_(engine), metrics_(metrics), writer_(std::move(writer)), error_form_(error_form) {}

  // A client that leaves cancels what runs for it, unless the call is detached.
  void WatchClient();
  // On a worker: calls `prepare`, then goes on with Submit on the server's thread.
  void Prepare(const std::function<Prepared()>& prepare);

 private:
  void Submit(PreparedCall call);
  void OnEvent(int64_t index, const TokenEvent& event);
  void Note(const TokenEvent& event);
  void Write(const std::vector<StreamEvent>& events);
  void Complete();
  void OnClientLeft();
  void Refuse(const ApiError& error);
  void CancelAll();
  void Report();
  bool InBackground() const;
  void LogBackground();

  Engine& engine_;
  Metrics& metrics_;
  std::shared_ptr<ResponseWriter> writer_;
  const ErrorForm error_form_;
  std::atomic<bool> over_ = false;  // answered, refused, or the client left

  std::unique_ptr<Answer> answer_;
  bool stream_ = false;
  bool detached_ = false;
  bool client_left_ = false;    // of a detached call
  AccessRecord background_;     // of a detached call, for its end
  std::vector<RequestId> ids_;  // by request of the call
  RequestStats stats_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace rose
