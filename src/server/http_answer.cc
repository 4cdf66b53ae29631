// HttpConnection: the half that answers.
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "base/check.h"
#include "server/http_connection.h"

namespace rose {
namespace asio = boost::asio;
using boost::system::error_code;

namespace {

double MillisecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace

bool HttpConnection::IsCurrent(int64_t serial) const {
  return serial == serial_ && state_ == State::kAnswering;
}

void HttpConnection::Send(int64_t serial, HttpResponse response) {
  if (!IsCurrent(serial) || streaming_) return;
  record_.status = response.status;
  response.headers.insert(response.headers.end(), cors_.begin(), cors_.end());
  std::string bytes = FormatHead(response, record_.request_id,
                                 StrCat("Content-Length: ", response.body.size()), keep_alive_);
  StartBody();
  if (!head_request_) bytes += response.body;
  Queue(bytes);
  FinishAnswer();
}

void HttpConnection::BeginStream(int64_t serial, HttpResponse head) {
  if (!IsCurrent(serial) || streaming_) return;
  record_.status = head.status;
  head.headers.insert(head.headers.end(), cors_.begin(), cors_.end());
  streaming_ = true;
  if (http10_) keep_alive_ = false;  // the end of the connection ends the body
  Queue(FormatHead(head, record_.request_id, http10_ ? "" : "Transfer-Encoding: chunked",
                   keep_alive_));
}

void HttpConnection::Write(int64_t serial, std::string_view data) {
  if (!IsCurrent(serial) || !streaming_ || data.empty() || head_request_) return;
  StartBody();
  if (http10_) {
    Queue(data);
  } else {
    Queue(FormatChunk(data));
  }
  const auto backlog = static_cast<int64_t>(out_.size() - sent_);
  if (backlog > context_.config.max_backlog_bytes) Close("slow_reader");
}

void HttpConnection::EndStream(int64_t serial) {
  if (!IsCurrent(serial) || !streaming_) return;
  if (!http10_ && !head_request_) Queue("0\r\n\r\n");
  FinishAnswer();
}

// The handler dropped its writer.
void HttpConnection::Abandon(int64_t serial) {
  if (!IsCurrent(serial)) return;
  if (streaming_) return Close("failed");
  Send(serial,
       ErrorResponseAt(record_.path, {.http_status = 500,
                                      .message = "The server failed to answer this request."}));
}

void HttpConnection::OnDisconnect(int64_t serial, std::function<void()> callback) {
  if (IsCurrent(serial)) {
    on_disconnect_ = std::move(callback);
  } else if (state_ == State::kClosed && serial == serial_) {
    callback();
  }
}

void HttpConnection::SetStats(int64_t serial, RequestStats stats) {
  if (serial == serial_) record_.stats = std::move(stats);
}

void HttpConnection::SetRoute(int64_t serial, std::string_view route) {
  if (serial == serial_) record_.route = route;
}

AccessRecord HttpConnection::Record(int64_t serial) const {
  return serial == serial_ ? record_ : AccessRecord{};
}

void HttpConnection::Log(const AccessRecord& record) {
  if (context_.config.on_finished) context_.config.on_finished(record);
}

void HttpConnection::StartBody() {
  if (record_.first_byte_ms < 0) record_.first_byte_ms = MillisecondsSince(received_);
}

void HttpConnection::Queue(std::string_view bytes) {
  if (state_ == State::kClosed) return;
  record_.response_bytes += static_cast<int64_t>(bytes.size());
  if (!tls_) return SendBytes(bytes);
  std::string sealed;
  tls_->Send(bytes, sealed);
  SendBytes(sealed);
}

// Sends what the kernel takes at once, which for a token of a stream is nearly always all of it,
// and keeps the rest.
void HttpConnection::SendBytes(std::string_view bytes) {
  if (bytes.empty() || state_ == State::kClosed) return;
  size_t taken = 0;
  if (!waiting_writable_) {
    error_code error;
    taken = socket_.write_some(asio::buffer(bytes), error);
    if (error && error != asio::error::would_block && error != asio::error::try_again) {
      return Close({});
    }
  }
  if (taken == bytes.size()) return;
  out_ += bytes.substr(taken);
  WaitWritable();
}

void HttpConnection::WaitWritable() {
  if (waiting_writable_) return;
  waiting_writable_ = true;
  // "100 Continue" leaves the body's deadline alone.
  if (state_ != State::kReading) SetDeadline(context_.config.write_timeout_ms);
  socket_.async_wait(asio::ip::tcp::socket::wait_write,
                     [self = shared_from_this()](const error_code& error) {
                       self->waiting_writable_ = false;
                       if (self->state_ == State::kClosed) return;
                       if (error) return self->Close({});
                       self->OnWritable();
                     });
}

void HttpConnection::OnWritable() {
  error_code error;
  sent_ += socket_.write_some(asio::buffer(out_.data() + sent_, out_.size() - sent_), error);
  if (error && error != asio::error::would_block && error != asio::error::try_again) {
    return Close({});
  }
  if (sent_ < out_.size()) return WaitWritable();
  out_ = {};
  sent_ = 0;
  if (state_ == State::kAnswering) timer_.cancel();  // the next event may take its time
  if (state_ == State::kFlushing) OnAnswered();
}

// All bytes of the answer are with the kernel.
void HttpConnection::OnAnswered() {
  state_ = State::kIdle;
  Report({});
  if (!keep_alive_ || context_.draining) {
    if (tls_) {
      std::string farewell;
      tls_->End(farewell);
      SendBytes(farewell);
    }
    if (input_ended_ || state_ == State::kClosed) return Close({});
    error_code ignored;
    // Closing with unread input would reset the connection, and the client might lose the answer.
    socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    state_ = State::kLingering;
    SetDeadline(context_.config.linger_ms);
    return WaitReadable();
  }
  SetDeadline(context_.config.idle_timeout_ms);
  Feed({});  // a request that was sent ahead
  WaitReadable();
}

// All bytes of the answer are queued.
void HttpConnection::FinishAnswer() {
  if (state_ == State::kClosed) return;
  on_disconnect_ = nullptr;
  state_ = State::kFlushing;
  if (waiting_writable_) return;
  // Posted: many requests sent ahead must not pile up on the stack.
  asio::post(socket_.get_executor(), [self = shared_from_this(), serial = serial_] {
    if (self->serial_ == serial && self->state_ == State::kFlushing) self->OnAnswered();
  });
}

void HttpConnection::Report(std::string_view cut_off) {
  --context_.answering;
  if (!context_.config.on_finished) return;
  record_.total_ms = MillisecondsSince(received_);
  record_.cut_off = cut_off;
  context_.config.on_finished(record_);
}

// `cut_off` says why the server closes before the answer is complete; empty: the client did.
void HttpConnection::Close(std::string_view cut_off) {
  if (state_ == State::kClosed) return;
  const bool unfinished = state_ == State::kAnswering || state_ == State::kFlushing;
  state_ = State::kClosed;
  error_code ignored;
  socket_.close(ignored);
  timer_.cancel();
  DropParser();
  out_ = unparsed_ = {};
  if (auto callback = std::exchange(on_disconnect_, nullptr)) callback();
  record_.client_left = cut_off.empty();
  if (unfinished) Report(cut_off);
  context_.on_closed(this);
}

}  // namespace rose
