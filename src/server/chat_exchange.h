// One chat completion under way: from its body to the last byte of its answer.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/chat_completions.h"
#include "engine/engine.h"
#include "server/http_server.h"

namespace rose {

// Shared by the worker that prepares it and the engine's callbacks; whoever lets go last ends the
// request. All but Prepare run on the HTTP server's thread.
class ChatExchange : public std::enable_shared_from_this<ChatExchange> {
 public:
  // `engine` and `context` outlive the exchange.
  ChatExchange(Engine& engine, const ApiContext& context, std::shared_ptr<ResponseWriter> writer)
      : engine_(engine), context_(context), writer_(std::move(writer)) {}

  // A client that leaves cancels what runs for it.
  void WatchClient();
  // On a worker: reads and renders, then goes on with Submit on the server's thread.
  void Prepare(std::string_view body);

 private:
  void Submit(ChatCall call);
  void OnEvent(int64_t choice, const TokenEvent& event);
  void Complete();
  void OnClientLeft();
  void Refuse(const ApiError& error);
  void CancelAll();
  void Report();

  Engine& engine_;
  const ApiContext& context_;
  std::shared_ptr<ResponseWriter> writer_;
  std::atomic<bool> over_ = false;  // answered, refused, or the client left

  std::optional<ChatAnswer> answer_;
  bool stream_ = false;
  std::vector<RequestId> ids_;  // by choice
  RequestStats stats_;
};

}  // namespace rose
