#include "server/http_connection.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "base/check.h"

namespace rose {
namespace asio = boost::asio;
using boost::system::error_code;

namespace {

// Bytes of requests that a client sends ahead while one is answered. Beyond this the connection is
// not read until the answer is done.
constexpr size_t kMaxReadAhead = 64 << 10;

double MillisecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace

HttpConnection::HttpConnection(asio::ip::tcp::socket socket, HttpConnectionContext& context)
    : socket_(std::move(socket)), timer_(socket_.get_executor()), context_(context) {}

bool HttpConnection::Open() {
  error_code error;
  socket_.non_blocking(true, error);
  socket_.set_option(asio::ip::tcp::no_delay(true), error);
  const auto remote = socket_.remote_endpoint(error);
  if (error) {  // the client left before it was accepted
    Close();
    return false;
  }
  record_.remote = StrCat(remote.address().to_string(), ":", remote.port());
  return true;
}

void HttpConnection::Start() {
  if (!Open()) return;
  SetDeadline(context_.config.idle_timeout_ms);
  WaitReadable();
}

void HttpConnection::StartRefusing(HttpResponse error) {
  if (Open()) Refuse(std::move(error));
}

void HttpConnection::Drain() {
  keep_alive_ = false;
  if (state_ == State::kIdle || state_ == State::kReading) Close();
}

void HttpConnection::Abort() {
  Close();
}

// ---- Reading

void HttpConnection::WaitReadable() {
  if (waiting_readable_ || input_ended_ || state_ == State::kClosed) return;
  const bool answering = state_ == State::kAnswering || state_ == State::kFlushing;
  if (answering && unparsed_.size() >= kMaxReadAhead) return;
  waiting_readable_ = true;
  // Also while a request is answered: this is how a client that leaves is noticed at once.
  socket_.async_wait(asio::ip::tcp::socket::wait_read,
                     [self = shared_from_this()](const error_code& error) {
                       self->waiting_readable_ = false;
                       if (self->state_ == State::kClosed) return;
                       if (error) return self->Close();
                       self->OnReadable();
                     });
}

void HttpConnection::OnReadable() {
  error_code error;
  const size_t size = socket_.read_some(asio::buffer(context_.scratch), error);
  if (error == asio::error::would_block || error == asio::error::try_again) return WaitReadable();
  if (error == asio::error::eof) return OnEndOfInput();
  if (error) return Close();
  const std::string_view bytes(context_.scratch.data(), size);
  switch (state_) {
    case State::kIdle:
    case State::kReading:
      Feed(bytes);
      break;
    case State::kAnswering:
    case State::kFlushing:
      unparsed_ += bytes;
      break;
    case State::kLingering:
    case State::kClosed:
      break;
  }
  WaitReadable();
}

// Offers the parser what was left over, then `bytes`, until a request is complete.
void HttpConnection::Feed(std::string_view bytes) {
  std::string joined;
  if (!unparsed_.empty()) {
    joined = std::move(unparsed_) + std::string(bytes);
    unparsed_.clear();
    bytes = joined;
  }
  if (bytes.empty()) return;
  if (state_ == State::kIdle) {
    state_ = State::kReading;
    parser_.emplace(context_.config.limits);
    told_to_continue_ = false;
    SetDeadline(context_.config.header_timeout_ms);
  }
  const auto stage_before = parser_->stage();
  unparsed_ = bytes.substr(parser_->Push(bytes));
  switch (parser_->stage()) {
    case RequestParser::Stage::kHeader:
      break;
    case RequestParser::Stage::kBody:
      if (stage_before == RequestParser::Stage::kHeader)
        SetDeadline(context_.config.body_timeout_ms);
      if (parser_->expects_continue() && !told_to_continue_) Queue("HTTP/1.1 100 Continue\r\n\r\n");
      told_to_continue_ = true;
      break;
    case RequestParser::Stage::kDone:
      HandleRequest();
      break;
    case RequestParser::Stage::kFailed:
      Refuse(parser_->error());
      break;
  }
}

void HttpConnection::HandleRequest() {
  HttpRequest request = parser_->Take();
  parser_.reset();
  timer_.cancel();
  state_ = State::kAnswering;
  ++serial_;
  head_request_ = request.method == "HEAD";
  http10_ = request.http10;
  keep_alive_ = request.keep_alive && !context_.draining;
  streaming_ = false;
  received_ = Clock::now();
  request.remote = record_.remote;
  record_ = {};
  record_.request_id = request.id;
  record_.remote = request.remote;
  record_.method = request.method;
  record_.path = request.path;
  record_.request_bytes = static_cast<int64_t>(request.body.size());
  ++context_.answering;
  context_.handler(std::move(request),
                   std::make_shared<ResponseWriter>(shared_from_this(), serial_));
}

// Answers what is no whole request; nothing that comes after it can be understood.
void HttpConnection::Refuse(HttpResponse error) {
  parser_.reset();
  timer_.cancel();
  unparsed_.clear();
  state_ = State::kAnswering;
  ++serial_;
  head_request_ = http10_ = streaming_ = keep_alive_ = false;
  received_ = Clock::now();
  const std::string remote = record_.remote;
  record_ = {};
  record_.request_id = UsableRequestId({});
  record_.remote = remote;
  ++context_.answering;
  Send(serial_, std::move(error));
}

void HttpConnection::OnEndOfInput() {
  input_ended_ = true;
  keep_alive_ = false;
  // A complete answer is still sent to a client that only closed its sending side.
  if (state_ != State::kFlushing) Close();
}

void HttpConnection::SetDeadline(int64_t ms) {
  timer_.expires_after(std::chrono::milliseconds(ms));
  timer_.async_wait([self = shared_from_this()](const error_code& error) {
    // A wait that had expired when the deadline moved is no news.
    if (!error && self->timer_.expiry() <= Clock::now()) self->OnDeadline();
  });
}

void HttpConnection::OnDeadline() {
  if (state_ == State::kReading) {
    Refuse(ErrorResponse(408, "The request did not arrive in time."));
  } else {
    Close();
  }
}

// ---- Answering

bool HttpConnection::IsCurrent(int64_t serial) const {
  return serial == serial_ && state_ == State::kAnswering;
}

void HttpConnection::Send(int64_t serial, HttpResponse response) {
  if (!IsCurrent(serial) || streaming_) return;
  record_.status = response.status;
  Queue(FormatHead(response, record_.request_id, StrCat("Content-Length: ", response.body.size()),
                   keep_alive_));
  StartBody();
  if (!head_request_) Queue(response.body);
  FinishAnswer();
}

void HttpConnection::BeginStream(int64_t serial, HttpResponse head) {
  if (!IsCurrent(serial) || streaming_) return;
  record_.status = head.status;
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
  const size_t backlog = out_.size() + sending_.size() - sent_;
  if (static_cast<int64_t>(backlog) > context_.config.max_backlog_bytes) Close();
}

void HttpConnection::EndStream(int64_t serial) {
  if (!IsCurrent(serial) || !streaming_) return;
  if (!http10_ && !head_request_) Queue("0\r\n\r\n");
  FinishAnswer();
}

// The handler dropped its writer.
void HttpConnection::Abandon(int64_t serial) {
  if (!IsCurrent(serial)) return;
  if (streaming_) return Close();
  Send(serial, ErrorResponse(500, "The server failed to answer this request."));
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

void HttpConnection::StartBody() {
  if (record_.first_byte_ms < 0) record_.first_byte_ms = MillisecondsSince(received_);
}

void HttpConnection::Queue(std::string_view bytes) {
  out_ += bytes;
  record_.response_bytes += static_cast<int64_t>(bytes.size());
  if (!writing_ && state_ != State::kClosed) WriteSome();
}

void HttpConnection::WriteSome() {
  if (sent_ == sending_.size()) {
    sending_ = std::exchange(out_, {});
    sent_ = 0;
  }
  writing_ = true;
  const bool answering =
      state_ != State::kReading;  // "100 Continue" leaves the body's deadline alone
  if (answering) SetDeadline(context_.config.write_timeout_ms);
  socket_.async_write_some(asio::buffer(sending_.data() + sent_, sending_.size() - sent_),
                           [self = shared_from_this()](const error_code& error, size_t bytes) {
                             self->writing_ = false;
                             if (self->state_ == State::kClosed) return;
                             if (error) return self->Close();
                             self->OnWritten(bytes);
                           });
}

void HttpConnection::OnWritten(size_t bytes) {
  sent_ += bytes;
  if (sent_ < sending_.size() || !out_.empty()) return WriteSome();
  sending_ = {};
  sent_ = 0;
  if (state_ == State::kAnswering) timer_.cancel();  // the next event may take its time
  if (state_ == State::kFlushing) OnAnswered();
}

// All bytes of the answer are with the kernel.
void HttpConnection::OnAnswered() {
  state_ = State::kIdle;
  Report(/*client_left=*/false);
  if (!keep_alive_ || context_.draining) {
    if (input_ended_) return Close();
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
  on_disconnect_ = nullptr;
  state_ = State::kFlushing;
  if (!writing_) OnAnswered();
}

void HttpConnection::Report(bool client_left) {
  --context_.answering;
  if (!context_.config.on_finished) return;
  record_.total_ms = MillisecondsSince(received_);
  record_.client_left = client_left;
  context_.config.on_finished(record_);
}

void HttpConnection::Close() {
  if (state_ == State::kClosed) return;
  const bool unfinished = state_ == State::kAnswering || state_ == State::kFlushing;
  state_ = State::kClosed;
  error_code ignored;
  socket_.close(ignored);
  timer_.cancel();
  out_ = unparsed_ = {};  // a write under way still refers to sending_
  if (auto callback = std::exchange(on_disconnect_, nullptr)) callback();
  if (unfinished) Report(/*client_left=*/true);
  context_.on_closed(this);
}

}  // namespace rose
