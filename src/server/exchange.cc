#include "server/exchange.h"

#include <algorithm>
#include <ctime>
#include <utility>
#include <variant>

#include "server/event_stream.h"

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
    case FinishReason::kExpired:
      return "expired";
    case FinishReason::kError:
      return "error";
  }
  return "";
}

}  // namespace

void Exchange::WatchClient() {
  // Weak: the connection keeps the callback, and this keeps the connection.
  writer_->OnDisconnect([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->OnClientLeft();
  });
}

void Exchange::Prepare(const std::function<Prepared()>& prepare) {
  if (over_) return;
  // Shared, since tasks can be copied and a prepared call cannot.
  auto prepared = std::make_shared<Prepared>(prepare());
  writer_->Post([self = shared_from_this(), prepared] {
    if (self->over_) return;
    if (const auto* error = std::get_if<ApiError>(prepared.get())) return self->Refuse(*error);
    self->Submit(std::move(std::get<PreparedCall>(*prepared)));
  });
}

void Exchange::Submit(PreparedCall call) {
  stream_ = call.stream;
  detached_ = call.detached;
  stats_.model = call.model;
  answer_ = std::move(call.answer);
  for (size_t index = 0; index < call.requests.size(); ++index) {
    Request request = std::move(call.requests[index]);
    request.on_event = [self = shared_from_this(),
                        index = static_cast<int64_t>(index)](const TokenEvent& event) {
      self->writer_->Post([self, index, event] { self->OnEvent(index, event); });
    };
    const auto id = engine_.Submit(std::move(request));
    if (!id.ok()) return Refuse(ErrorFromStatus(id.status()));
    ids_.push_back(*id);
  }
  answer_->Started([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->CancelAll();
  });
  if (detached_) background_ = writer_->Record();
  if (!stream_) {
    if (detached_) writer_->Send({.body = answer_->Body()});
    return;
  }
  writer_->BeginStream(EventStreamHead());
  std::vector<StreamEvent> events;
  answer_->Begin(events);
  Write(events);
}

void Exchange::OnEvent(int64_t index, const TokenEvent& event) {
  if (over_) return;
  Note(event);
  std::vector<StreamEvent> events;
  answer_->Push(index, event, events);
  if (answer_->ended(index) && event.finish == FinishReason::kNone) {
    stats_.finish = "stop";
    engine_.Cancel(ids_[static_cast<size_t>(index)]);
  }
  const bool done = answer_->done();
  if (stream_ && done) answer_->Finish(events);
  if (stream_) Write(events);
  if (done) Complete();
}

// What the log and the metrics want to know.
void Exchange::Note(const TokenEvent& event) {
  stats_.cached_tokens = std::max(stats_.cached_tokens, event.cached_tokens);
  stats_.queued_ms = std::max(stats_.queued_ms, event.queued_ms);
  if (event.finish != FinishReason::kNone) stats_.finish = NameOf(event.finish);
  if (event.tokens.empty()) return;
  const std::chrono::duration<double, std::milli> now = std::chrono::steady_clock::now() - started_;
  if (stats_.first_token_ms < 0) {
    stats_.first_token_ms = now.count();
  } else if (ids_.size() == 1) {  // the tokens of several choices come as they like
    metrics_.ObserveTokens((now.count() - stats_.last_token_ms) / 1000, std::ssize(event.tokens));
  }
  stats_.last_token_ms = now.count();
}

void Exchange::Write(const std::vector<StreamEvent>& events) {
  if (!events.empty()) writer_->Write(JoinEvents(events));
}

void Exchange::Complete() {
  // Writing may have found the client gone.
  if (over_.exchange(true)) return;
  const auto& failed = answer_->failed();
  if (failed) CancelAll();
  Report();
  if (InBackground()) return;  // answered long ago
  if (stream_) {
    writer_->EndStream();
  } else if (failed) {
    writer_->Send(error_form_(*failed));
  } else {
    writer_->Send({.body = answer_->Body()});
  }
}

void Exchange::OnClientLeft() {
  client_left_ = true;
  if (detached_) return;
  if (over_.exchange(true)) return;
  CancelAll();
  if (answer_) {
    stats_.finish = "cancelled";
    Report();
  }
}

void Exchange::Refuse(const ApiError& error) {
  over_ = true;
  CancelAll();
  writer_->Send(error_form_(error));
}

void Exchange::CancelAll() {
  for (const RequestId id : ids_) engine_.Cancel(id);
}

void Exchange::Report() {
  stats_.prompt_tokens = answer_->prompt_tokens();
  stats_.completion_tokens = answer_->completion_tokens();
  stats_.dropped_bytes = answer_->dropped_bytes();
  if (!InBackground()) return writer_->SetStats(stats_);
  LogBackground();
}

// Its request is over already, or will be before long.
bool Exchange::InBackground() const {
  return detached_ && (client_left_ || !stream_);
}

// What the log of its request could not say.
void Exchange::LogBackground() {
  const std::chrono::duration<double, std::milli> time =
      std::chrono::steady_clock::now() - started_;
  background_.background = true;
  background_.status = 200;
  background_.total_ms = time.count();
  background_.stats = std::move(stats_);
  writer_->Log(background_);
}

}  // namespace rose
