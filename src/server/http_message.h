// What the HTTP layer and its handlers exchange: plain requests and responses, and the pure
// functions that turn them into bytes. No socket and no Beast type.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/error.h"

namespace rose {

// ASCII letters alike.
bool EqualsIgnoringCase(std::string_view a, std::string_view b);

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// The value of the first header of that name (case-insensitive), or an empty view.
std::string_view FindHeader(const HttpHeaders& headers, std::string_view name);

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // percent-decoded, without query: "/v1/models/openai/gpt-oss-20b"
  std::string query;   // as sent, without '?'
  HttpHeaders headers;
  std::string body = {};
  std::string id;      // X-Request-Id if it came with a usable one, else made up
  std::string remote;  // "127.0.0.1:50112"
  bool keep_alive = true;
  bool http10 = false;  // no chunked answers
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  HttpHeaders headers = {};  // further ones
  std::string body = {};
};

// Status and JSON body of an error (spec E.12); 429 and 503 get a Retry-After.
HttpResponse ErrorResponse(const ApiError& error);
HttpResponse ErrorResponse(int status, std::string message);
// The same in the form of the API that the path belongs to: under /v1/messages that of Anthropic.
HttpResponse ErrorResponseAt(std::string_view path, const ApiError& error);

// Status line and headers up to the empty line. `framing` is the line that says how the body ends,
// such as "Content-Length: 5" or "Transfer-Encoding: chunked"; may be empty.
std::string FormatHead(const HttpResponse& response, std::string_view request_id,
                       std::string_view framing, bool keep_alive);
// One piece of a chunked body; `data` must not be empty, since that would end it.
std::string FormatChunk(std::string_view data);

// "%2F" -> "/"; what is no escape stays as it is.
std::string PercentDecode(std::string_view text);
// `offered` if it is 1 to 128 printable ASCII characters without a space, else 32 random hex
// digits.
std::string UsableRequestId(std::string_view offered);

}  // namespace rose
