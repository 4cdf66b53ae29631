#include "server/chat_exchange.h"

#include <algorithm>
#include <ctime>
#include <utility>
#include <variant>

namespace rose {
namespace {

std::string_view NameOf(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return "";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
  }
  return "";
}

std::string JoinEvents(const std::vector<std::string>& chunks) {
  std::string text;
  for (const std::string& chunk : chunks) text.append("data: ").append(chunk).append("\n\n");
  return text;
}

}  // namespace

void ChatExchange::WatchClient() {
  // Weak: the connection keeps the callback, and this keeps the connection.
  writer_->OnDisconnect([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->OnClientLeft();
  });
}

void ChatExchange::Prepare(std::string_view body) {
  if (over_) return;
  auto parsed = ParseChatRequest(body, context_, static_cast<int64_t>(std::time(nullptr)));
  writer_->Post([self = shared_from_this(), parsed = std::move(parsed)]() mutable {
    if (self->over_) return;
    if (const auto* error = std::get_if<ApiError>(&parsed)) return self->Refuse(*error);
    self->Submit(std::move(std::get<ChatCall>(parsed)));
  });
}

void ChatExchange::Submit(ChatCall call) {
  stream_ = call.stream;
  stats_.model = call.model;
  answer_.emplace(call, context_);
  for (int64_t choice = 0; choice < call.choices; ++choice) {
    Request request = call.RequestOf(choice);
    request.on_event = [self = shared_from_this(), choice](const TokenEvent& event) {
      self->writer_->Post([self, choice, event] { self->OnEvent(choice, event); });
    };
    const auto id = engine_.Submit(std::move(request));
    if (!id.ok()) return Refuse(ErrorFromStatus(id.status()));
    ids_.push_back(*id);
  }
  if (stream_) {
    HttpResponse head{.content_type = "text/event-stream; charset=utf-8"};
    head.headers.emplace_back("Cache-Control", "no-cache");
    head.headers.emplace_back("X-Accel-Buffering", "no");  // reverse proxies pass each event on
    writer_->BeginStream(std::move(head));
  }
}

void ChatExchange::OnEvent(int64_t choice, const TokenEvent& event) {
  if (over_) return;
  stats_.cached_tokens = std::max(stats_.cached_tokens, event.cached_tokens);
  if (event.finish != FinishReason::kNone) stats_.finish = NameOf(event.finish);
  std::vector<std::string> chunks;
  answer_->Push(choice, event, chunks);
  if (answer_->ended(choice) && event.finish == FinishReason::kNone) {
    stats_.finish = "stop";
    engine_.Cancel(ids_[static_cast<size_t>(choice)]);
  }
  const bool done = answer_->done();
  if (stream_ && done) answer_->Finish(chunks);
  if (stream_ && !chunks.empty()) writer_->Write(JoinEvents(chunks));
  if (done) Complete();
}

void ChatExchange::Complete() {
  // Writing may have found the client gone.
  if (over_.exchange(true)) return;
  const auto& failed = answer_->failed();
  if (failed) CancelAll();
  Report();
  if (stream_) {
    writer_->EndStream();
  } else if (failed) {
    writer_->Send(ErrorResponse(*failed));
  } else {
    writer_->Send({.body = answer_->Body()});
  }
}

void ChatExchange::OnClientLeft() {
  if (over_.exchange(true)) return;
  CancelAll();
  if (answer_) {
    stats_.finish = "cancelled";
    Report();
  }
}

void ChatExchange::Refuse(const ApiError& error) {
  over_ = true;
  CancelAll();
  writer_->Send(ErrorResponse(error));
}

void ChatExchange::CancelAll() {
  for (const RequestId id : ids_) engine_.Cancel(id);
}

void ChatExchange::Report() {
  stats_.prompt_tokens = answer_->prompt_tokens();
  stats_.completion_tokens = answer_->completion_tokens();
  writer_->SetStats(stats_);
}

}  // namespace rose
