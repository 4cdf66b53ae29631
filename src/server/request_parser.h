// Bytes of a connection to requests. The only part of the program that sees Boost.Beast.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "server/http_message.h"

namespace rose {

struct HttpLimits {
  int64_t header_bytes = 32 << 10;
  int64_t body_bytes = 64 << 20;
};

// Parses one request. Total: any bytes whatever give a request, an error, or a wish for more.
class RequestParser {
 public:
  enum class Stage { kHeader, kBody, kDone, kFailed };

  explicit RequestParser(const HttpLimits& limits);
  ~RequestParser();

  // Uses bytes from the front of `bytes` and says how many; the rest is to be offered again with
  // more behind it, or belongs to the next request.
  size_t Push(std::string_view bytes);

  Stage stage() const { return stage_; }
  // In kBody: the client waits for "100 Continue" before it sends the body.
  bool expects_continue() const;
  // In kFailed: the answer that says why. The connection must be closed after it.
  const HttpResponse& error() const { return error_; }
  // From kBody on: the request without its body; `remote` is empty.
  const HttpRequest& head() const;
  // Bytes of the body so far.
  int64_t body_bytes() const;
  // In kDone, once. `remote` is left empty.
  HttpRequest Take();

 private:
  void CheckHeader();
  void CheckChunk(std::string_view rest);
  void TakeHeader();
  void Fail(int status, std::string message);

  struct Impl;
  std::unique_ptr<Impl> impl_;
  HttpLimits limits_;
  Stage stage_ = Stage::kHeader;
  size_t header_used_ = 0;  // bytes
  bool request_line_seen_ = false;
  HttpResponse error_;
};

}  // namespace rose
