// HttpServer: HTTP/1.1 over TCP with keep-alive, chunked streams and server-sent events. It moves
// bytes and owns connections, limits, time-outs and back-pressure; it knows nothing of models.
//
// One thread runs all sockets. The handler is called on that thread and must not block: it answers
// at once, or keeps the writer and answers later from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "server/access_policy.h"
#include "server/http_message.h"
#include "server/request_parser.h"
#include "server/tls.h"

namespace rose {

// What the handler can tell the access log about a request; -1 and empty = not known. Times count
// from the complete request.
struct RequestStats {
  std::string model = {};
  int64_t prompt_tokens = -1;
  int64_t cached_tokens = -1;
  int64_t completion_tokens = -1;
  std::string finish = {};     // stop, length, cancelled, error
  double queued_ms = -1;       // in the engine's queue
  double first_token_ms = -1;  // to the first token
  double last_token_ms = -1;   // to the last one so far
  int64_t dropped_bytes = 0;   // of what the model wrote and no field of the answer could hold
};

// A request that is over, for the access log. Never content.
struct AccessRecord {
  std::string request_id, remote, method, path;
  std::string_view route = {};  // the pattern that the handler found for the path
  int status = 0;
  int64_t request_bytes = 0;   // body
  int64_t response_bytes = 0;  // head and body, as sent
  double first_byte_ms = -1;   // from the whole request to the first byte of the answer's body
  double total_ms = 0;         // from the whole request to the last byte
  bool client_left = false;    // before the answer was complete
  // Why the server broke the answer off: "slow_reader", "stopped", "failed". Empty: it did not.
  std::string_view cut_off = {};
  // A second record of a request: what it had started has ended, long after its answer.
  bool background = false;
  RequestStats stats;
};

struct HttpServerConfig {
  std::string host = "127.0.0.1";
  int port = 8000;  // 0 = any free one
  HttpLimits limits;
  AccessPolicy access;
  std::shared_ptr<const TlsContext> tls;  // shared by all sessions; null = plain HTTP
  int64_t max_connections = 4096;
  int64_t max_backlog_bytes = 1 << 20;  // of a stream, unsent; a reader behind by more is cut off
  int64_t max_receiving_bytes = int64_t{1} << 30;  // of all bodies that are not complete
  int64_t idle_timeout_ms = 75'000;                // between requests
  int64_t header_timeout_ms = 10'000;  // from the first byte of a request to the end of its headers
  int64_t body_timeout_ms = 120'000;   // for the body
  int64_t write_timeout_ms = 30'000;   // without progress of a write
  int64_t linger_ms = 2'000;           // for the client to read an error sent before its body ended
  std::function<void(const AccessRecord&)> on_finished;  // on the server's thread; may be empty
};

class HttpConnection;

// The answer to one request. Thread-safe; calls of one thread keep their order. Calls after the end
// of the answer, or after the client left, do nothing. Dropping a writer whose answer is not
// complete answers 500, or breaks the connection off if a stream has begun. Must not outlive the
// HttpServer.
class ResponseWriter {
 public:
  ResponseWriter(std::shared_ptr<HttpConnection> connection, int64_t serial);
  ~ResponseWriter();
  ResponseWriter(const ResponseWriter&) = delete;
  ResponseWriter& operator=(const ResponseWriter&) = delete;

  // The whole answer.
  void Send(HttpResponse response);
  // A streamed answer: its head (body empty), then pieces sent at once, then its end.
  void BeginStream(HttpResponse head);
  void Write(std::string data);
  void EndStream();

  // `callback` runs once on the server's thread if the client leaves (or reads too slowly) before
  // the answer is complete; at once if it has left already. It is dropped when the answer ends.
  void OnDisconnect(std::function<void()> callback);
  // For the access log; before the end of the answer.
  void SetStats(RequestStats stats);
  // What the access log would say of a request that is being answered, and a further record for it:
  // of what goes on after the answer. Both on the server's thread.
  AccessRecord Record() const;
  void Log(const AccessRecord& record);
  // The pattern of the path, for figures by route; `route` is a literal.
  void SetRoute(std::string_view route);
  // Runs `task` on the server's thread, in order with the calls above.
  void Post(std::function<void()> task);

 private:
  std::shared_ptr<HttpConnection> connection_;
  int64_t serial_;  // of the request on its connection
};

// Shared by the code that waits for an answer and the callbacks that give it.
using HttpHandler = std::function<void(HttpRequest, std::shared_ptr<ResponseWriter>)>;

class HttpServer {
 public:
  HttpServer(HttpServerConfig config, HttpHandler handler);
  ~HttpServer();

  // Binds and serves. A port in use or a bad host is kUnavailable or kInvalidArgument.
  Status Start();
  // The port that is listened on, after Start.
  int port() const;
  // Open connections.
  int64_t connections() const;

  // Accepts no connection and no request any more, closes idle connections; true once all
  // answers are complete, false after `timeout_ms`.
  bool Drain(int64_t timeout_ms);
  // Breaks off what is left and joins the thread. Called by the destructor.
  void Stop();

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace rose
