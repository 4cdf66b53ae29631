#include "server/http_server.h"

#include <atomic>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdio>
#include <exception>
#include <thread>
#include <unordered_map>
#include <utility>

#include "server/http_connection.h"

namespace rose {
namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// ---- ResponseWriter: every call moves to the server's thread.

ResponseWriter::ResponseWriter(std::shared_ptr<HttpConnection> connection, int64_t serial)
    : connection_(std::move(connection)), serial_(serial) {}

ResponseWriter::~ResponseWriter() {
  // Posted, never at once: the last reference may fall inside one of the connection's own
  // functions.
  asio::post(connection_->executor(), [c = connection_, s = serial_] { c->Abandon(s); });
}

void ResponseWriter::Send(HttpResponse response) {
  asio::dispatch(connection_->executor(),
                 [c = connection_, s = serial_, r = std::move(response)]() mutable {
                   c->Send(s, std::move(r));
                 });
}

void ResponseWriter::BeginStream(HttpResponse head) {
  asio::dispatch(connection_->executor(),
                 [c = connection_, s = serial_, h = std::move(head)]() mutable {
                   c->BeginStream(s, std::move(h));
                 });
}

void ResponseWriter::Write(std::string data) {
  asio::dispatch(connection_->executor(),
                 [c = connection_, s = serial_, d = std::move(data)] { c->Write(s, d); });
}

void ResponseWriter::EndStream() {
  asio::dispatch(connection_->executor(), [c = connection_, s = serial_] { c->EndStream(s); });
}

void ResponseWriter::OnDisconnect(std::function<void()> callback) {
  asio::dispatch(connection_->executor(),
                 [c = connection_, s = serial_, f = std::move(callback)]() mutable {
                   c->OnDisconnect(s, std::move(f));
                 });
}

void ResponseWriter::SetStats(RequestStats stats) {
  asio::dispatch(connection_->executor(),
                 [c = connection_, s = serial_, t = std::move(stats)]() mutable {
                   c->SetStats(s, std::move(t));
                 });
}

void ResponseWriter::SetRoute(std::string_view route) {
  asio::dispatch(connection_->executor(),
                 [c = connection_, s = serial_, route] { c->SetRoute(s, route); });
}

AccessRecord ResponseWriter::Record() const {
  return connection_->Record(serial_);
}

void ResponseWriter::Log(const AccessRecord& record) {
  connection_->Log(record);
}

void ResponseWriter::Post(std::function<void()> task) {
  asio::post(connection_->executor(), std::move(task));
}

// ---- HttpServer

class HttpServer::Core {
 public:
  Core(HttpServerConfig config, HttpHandler handler)
      : config_(std::move(config)),
        handler_(std::move(handler)),
        context_{config_, handler_, [this](HttpConnection* c) { OnClosed(c); },
                 std::string(64 << 10, '\0')} {}
  ~Core() { Stop(); }

  Status Start();
  int port() const { return port_; }
  int64_t connections() const { return open_; }
  bool Drain(int64_t timeout_ms);
  void Stop();

 private:
  Status Listen();
  void Accept();
  void OnAccepted(tcp::socket socket);
  void OnClosed(HttpConnection* connection);
  void Run();

  const HttpServerConfig config_;
  const HttpHandler handler_;
  HttpConnectionContext context_;
  // Destroyed before what its pending work refers to.
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  tcp::acceptor acceptor_{io_};
  asio::steady_timer retry_{io_};
  std::unordered_map<HttpConnection*, std::weak_ptr<HttpConnection>> all_;
  std::atomic<int64_t> open_ = 0;
  int port_ = 0;
  std::thread thread_;
};

Status HttpServer::Core::Listen() {
  error_code error;
  tcp::resolver resolver(io_);
  const auto found =
      resolver.resolve(config_.host, std::to_string(config_.port),
                       tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error) {
    return InvalidArgument("cannot listen on host '", config_.host, "': ", error.message(),
                           "; give an address of this machine, such as 127.0.0.1 or 0.0.0.0");
  }
  const tcp::endpoint endpoint = *found.begin();
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (error == asio::error::address_in_use) {
    return Unavailable("port ", config_.port, " on ", config_.host,
                       " is in use; stop the other program or choose another with --port");
  }
  if (error == asio::error::access_denied) {
    return Unavailable("not allowed to listen on port ", config_.port,
                       "; choose one of 1024 or more with --port");
  }
  if (error) {
    return Unavailable("cannot listen on ", config_.host, " port ", config_.port, ": ",
                       error.message());
  }
  port_ = acceptor_.local_endpoint(error).port();
  return Status();
}

Status HttpServer::Core::Start() {
  ROSE_RETURN_IF_ERROR(Listen());
  Accept();
  thread_ = std::thread([this] { Run(); });
  return Status();
}

void HttpServer::Core::Run() {
  while (true) {
    try {
      io_.run();
      return;
    } catch (const std::exception& failure) {
      // Ours. What the failed callback held is released, which ends its request with 500.
      std::fprintf(stderr, "rose: a request failed: %s\n", failure.what());
    }
  }
}

void HttpServer::Core::Accept() {
  acceptor_.async_accept([this](const error_code& error, tcp::socket socket) {
    if (!acceptor_.is_open()) return;
    if (!error) {
      OnAccepted(std::move(socket));
      return Accept();
    }
    // Out of file descriptors, most likely: wait for some to come back.
    retry_.expires_after(std::chrono::milliseconds(50));
    retry_.async_wait([this](const error_code& stopped) {
      if (!stopped && acceptor_.is_open()) Accept();
    });
  });
}

void HttpServer::Core::OnAccepted(tcp::socket socket) {
  // A few more than the limit are told so; beyond that there is no room even for this.
  constexpr int64_t kRefusedAtOnce = 100;
  if (open_ >= config_.max_connections + kRefusedAtOnce) return;
  auto connection = std::make_shared<HttpConnection>(std::move(socket), context_);
  all_.emplace(connection.get(), connection);
  if (++open_ <= config_.max_connections) return connection->Start();
  connection->StartRefusing(
      ErrorResponse(503, "The server has too many connections; try again later."));
}

void HttpServer::Core::OnClosed(HttpConnection* connection) {
  all_.erase(connection);
  --open_;
}

bool HttpServer::Core::Drain(int64_t timeout_ms) {
  asio::post(io_, [this] {
    context_.draining = true;
    error_code ignored;
    acceptor_.close(ignored);
    const auto all = all_;  // closing takes away from all_
    for (const auto& [key, weak] : all) {
      if (const auto connection = weak.lock()) connection->Drain();
    }
  });
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (context_.answering != 0) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

void HttpServer::Core::Stop() {
  if (!thread_.joinable()) return;
  asio::post(io_, [this] {
    error_code ignored;
    acceptor_.close(ignored);
    retry_.cancel();
    const auto all = all_;
    for (const auto& [key, weak] : all) {
      if (const auto connection = weak.lock()) connection->Abort();
    }
    work_.reset();
  });
  thread_.join();
}

HttpServer::HttpServer(HttpServerConfig config, HttpHandler handler)
    : core_(std::make_unique<Core>(std::move(config), std::move(handler))) {}
HttpServer::~HttpServer() = default;
Status HttpServer::Start() {
  return core_->Start();
}
int HttpServer::port() const {
  return core_->port();
}
int64_t HttpServer::connections() const {
  return core_->connections();
}
bool HttpServer::Drain(int64_t timeout_ms) {
  return core_->Drain(timeout_ms);
}
void HttpServer::Stop() {
  core_->Stop();
}

}  // namespace rose
