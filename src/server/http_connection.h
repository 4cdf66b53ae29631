// One connection of the HTTP server: reads requests one after the other, hands each to the handler,
// writes its answer. All members run on the server's thread.
#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/http_server.h"
#include "server/request_parser.h"

namespace rose {

// What the connections of a server share.
struct HttpConnectionContext {
  const HttpServerConfig& config;
  const HttpHandler& handler;
  std::function<void(HttpConnection*)> on_closed;  // once for each connection
  std::string scratch;                             // read buffer, used within one callback only
  int64_t receiving = 0;                           // bytes of bodies that are not complete
  bool draining = false;
  std::atomic<int64_t> answering = 0;  // requests whose answer is not complete
};

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  // `context` outlives the connection.
  HttpConnection(boost::asio::ip::tcp::socket socket, HttpConnectionContext& context);

  void Start();
  // Answers `error` unasked, and closes.
  void StartRefusing(HttpResponse error);
  // No further request: closes after the answer under way, or now if there is none.
  void Drain();
  // Breaks off at once.
  void Abort();

  // For ResponseWriter; `serial` names the request that is answered, a stale one is ignored.
  boost::asio::any_io_executor executor() { return socket_.get_executor(); }
  void Send(int64_t serial, HttpResponse response);
  void BeginStream(int64_t serial, HttpResponse head);
  void Write(int64_t serial, std::string_view data);
  void EndStream(int64_t serial);
  void Abandon(int64_t serial);
  void OnDisconnect(int64_t serial, std::function<void()> callback);
  void SetStats(int64_t serial, RequestStats stats);
  void SetRoute(int64_t serial, std::string_view route);
  AccessRecord Record(int64_t serial) const;
  void Log(const AccessRecord& record);

 private:
  enum class State {
    kIdle,       // between requests
    kReading,    // a request's header or body
    kAnswering,  // the handler has the request
    kFlushing,   // its answer is complete, bytes are still to be sent
    kLingering,  // an early answer is sent; what the client still sends is thrown away
    kClosed,
  };
  using Clock = std::chrono::steady_clock;

  bool Open();
  void WaitReadable();
  void OnReadable();
  void Take(std::string_view bytes);
  void Feed(std::string_view bytes);
  void HandleRequest();
  void Refuse(HttpResponse error);
  void BeginAnswer(const HttpRequest& head);
  void DropParser();
  void OnEndOfInput();
  void SetDeadline(int64_t ms);
  void OnDeadline();
  bool IsCurrent(int64_t serial) const;
  void StartBody();
  void Queue(std::string_view bytes);
  void SendBytes(std::string_view bytes);
  void WaitWritable();
  void OnWritable();
  void FinishAnswer();
  void OnAnswered();
  void Report(std::string_view cut_off);
  void Close(std::string_view cut_off);

  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer timer_;
  HttpConnectionContext& context_;
  State state_ = State::kIdle;
  std::unique_ptr<TlsSession> tls_;  // null: plain HTTP

  std::optional<RequestParser> parser_;  // while reading
  int64_t receiving_ = 0;                // bytes of its body, as counted in the context
  std::string unparsed_;                 // bytes that belong to later parsing
  bool waiting_readable_ = false;
  bool input_ended_ = false;
  bool told_to_continue_ = false;

  // The request being answered.
  int64_t serial_ = 0;
  bool head_request_ = false;
  bool http10_ = false;
  bool keep_alive_ = true;
  bool streaming_ = false;
  HttpHeaders cors_;  // of every answer
  std::function<void()> on_disconnect_;
  AccessRecord record_;
  Clock::time_point received_;

  std::string out_;  // what the kernel did not take yet
  size_t sent_ = 0;  // of out_
  bool waiting_writable_ = false;
};

}  // namespace rose
