// A small blocking HTTP/1.1 client: for the demonstration, which asks its own server, and for
// tests.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "server/http_message.h"

namespace rose {

struct HttpReply {
  int status = 0;
  HttpHeaders headers;
  std::string body;  // chunks joined
};

class HttpClient {
 public:
  // `host` is an IPv4 address. No wait of any call below lasts longer than `timeout_ms`.
  static Result<HttpClient> Connect(const std::string& host, int port, int timeout_ms = 60'000);
  ~HttpClient();
  HttpClient(HttpClient&& other) noexcept;
  HttpClient& operator=(HttpClient&&) = delete;

  Status SendRaw(std::string_view bytes);
  // With Host and Content-Length.
  Status SendRequest(std::string_view method, std::string_view path, std::string_view body = {},
                     const HttpHeaders& headers = {});
  // The next reply; `on_data` gets pieces of its body as they come, and may return false to stop.
  using OnData = std::function<bool(std::string_view)>;
  Result<HttpReply> ReadReply(const OnData& on_data = {}, bool head_request = false);
  // Both.
  Result<HttpReply> Ask(std::string_view method, std::string_view path, std::string_view body = {},
                        const HttpHeaders& headers = {});
  // The server closed the connection, with nothing left to read.
  bool AtEnd();
  void Close();
  int socket() const { return socket_; }

 private:
  explicit HttpClient(int socket, int timeout_ms) : socket_(socket), timeout_ms_(timeout_ms) {}
  Status Fill();  // more bytes into held_; kUnavailable at the end of the stream
  Result<std::string> ReadLine();
  Status ReadPiece(int64_t size, HttpReply& reply, const OnData& on_data);

  int socket_ = -1;
  int timeout_ms_;
  std::string held_;  // received, not yet used
};

// Server-sent events, from bytes cut anywhere: the `data:` of each event.
class SseReader {
 public:
  // Calls `on_data` for every event that `bytes` completes.
  void Push(std::string_view bytes, const std::function<void(std::string_view)>& on_data);

 private:
  std::string held_;
};

}  // namespace rose
