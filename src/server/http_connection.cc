// HttpConnection: the half that reads.
#include "server/http_connection.h"

#include <boost/asio/buffer.hpp>
#include <utility>

#include "base/check.h"

namespace rose {
namespace asio = boost::asio;
using boost::system::error_code;

namespace {

// Bytes of requests that a client sends ahead while one is answered. Beyond this the connection is
// not read until the answer is done.
constexpr size_t kMaxReadAhead = 64 << 10;

}  // namespace

HttpConnection::HttpConnection(asio::ip::tcp::socket socket, HttpConnectionContext& context)
    : socket_(std::move(socket)), timer_(socket_.get_executor()), context_(context) {}

bool HttpConnection::Open() {
  error_code error;
  socket_.non_blocking(true, error);
  socket_.set_option(asio::ip::tcp::no_delay(true), error);
  const auto remote = socket_.remote_endpoint(error);
  if (error) {  // the client left before it was accepted
    Close({});
    return false;
  }
  record_.remote = StrCat(remote.address().to_string(), ":", remote.port());
  return true;
}

void HttpConnection::Start() {
  if (!Open()) return;
  const HttpServerConfig& config = context_.config;
  if (config.tls) tls_ = std::make_unique<TlsSession>(config.tls);
  // A handshake is not waited for as long as a next request.
  SetDeadline(config.tls ? config.header_timeout_ms : config.idle_timeout_ms);
  WaitReadable();
}

void HttpConnection::StartRefusing(HttpResponse error) {
  if (!Open()) return;
  if (context_.config.tls) return Close("stopped");  // nothing can be said before a handshake
  Refuse(std::move(error));
}

void HttpConnection::Drain() {
  keep_alive_ = false;
  if (state_ == State::kIdle || state_ == State::kReading) Close("stopped");
}

void HttpConnection::Abort() {
  Close("stopped");
}

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
                       if (error) return self->Close({});
                       self->OnReadable();
                     });
}

void HttpConnection::OnReadable() {
  error_code error;
  const size_t size = socket_.read_some(asio::buffer(context_.scratch), error);
  if (error == asio::error::would_block || error == asio::error::try_again) return WaitReadable();
  if (error == asio::error::eof) return OnEndOfInput();
  if (error) return Close({});
  const std::string_view bytes(context_.scratch.data(), size);
  if (!tls_) {
    Take(bytes);
  } else {
    std::string plain, reply;
    const auto state = tls_->Receive(bytes, plain, reply);
    SendBytes(reply);
    if (state == TlsSession::State::kBroken) return Close({});
    if (!plain.empty()) Take(plain);
    if (state == TlsSession::State::kEnded) return OnEndOfInput();
  }
  WaitReadable();
}

void HttpConnection::Take(std::string_view bytes) {
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
  const int64_t more = parser_->body_bytes() - receiving_;
  receiving_ += more;
  context_.receiving += more;
  switch (parser_->stage()) {
    case RequestParser::Stage::kHeader:
      break;
    case RequestParser::Stage::kBody:
      if (stage_before == RequestParser::Stage::kHeader) {
        // Before the body: what is refused anyway takes no memory.
        if (auto refusal = CheckAccess(context_.config.access, parser_->head())) {
          return Refuse(std::move(*refusal));
        }
        SetDeadline(context_.config.body_timeout_ms);
      }
      if (context_.receiving > context_.config.max_receiving_bytes) {
        return Refuse(ErrorResponseAt(
            parser_->head().path,
            {.http_status = 503,
             .message = "The server is busy receiving requests; try again later."}));
      }
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
  DropParser();
  BeginAnswer(request);
  keep_alive_ = request.keep_alive && !context_.draining;
  if (auto refusal = CheckAccess(context_.config.access, request)) {
    return Send(serial_, std::move(*refusal));
  }
  context_.handler(std::move(request),
                   std::make_shared<ResponseWriter>(shared_from_this(), serial_));
}

// Answers what is no whole request; nothing that comes after it can be understood.
void HttpConnection::Refuse(HttpResponse error) {
  HttpRequest head;
  if (parser_) head = parser_->head();
  if (head.id.empty()) head.id = UsableRequestId({});  // not even a head
  DropParser();
  unparsed_.clear();
  BeginAnswer(head);
  keep_alive_ = false;
  Send(serial_, std::move(error));
}

void HttpConnection::BeginAnswer(const HttpRequest& head) {
  timer_.cancel();
  state_ = State::kAnswering;
  ++serial_;
  ++context_.answering;
  head_request_ = head.method == "HEAD";
  http10_ = head.http10;
  streaming_ = false;
  received_ = Clock::now();
  cors_ = CorsHeaders(context_.config.access, head);
  AccessRecord record;
  record.request_id = head.id;
  record.remote = std::move(record_.remote);
  record.method = head.method;
  record.path = head.path;
  record.request_bytes = static_cast<int64_t>(head.body.size());
  record_ = std::move(record);
}

void HttpConnection::DropParser() {
  parser_.reset();
  context_.receiving -= std::exchange(receiving_, 0);
}

void HttpConnection::OnEndOfInput() {
  input_ended_ = true;
  keep_alive_ = false;
  // A complete answer is still sent to a client that only closed its sending side.
  if (state_ != State::kFlushing) Close({});
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
    Refuse(ErrorResponseAt(parser_ ? parser_->head().path : "",
                           {.http_status = 408, .message = "The request did not arrive in time."}));
  } else {
    // While an answer is under way only a blocked write has a deadline.
    Close("slow_reader");
  }
}

}  // namespace rose
