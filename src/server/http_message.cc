#include "server/http_message.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <ctime>
#include <utility>

#include "api/messages.h"
#include "base/check.h"

namespace rose {
namespace {

std::string_view Reason(int status) {
  switch (status) {
    case 100:
      return "Continue";
    case 200:
      return "OK";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
  }
  return "Unknown";
}

std::string HttpDate() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 40> text{};
  const size_t size = std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &utc);
  return std::string(text.data(), size);
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

std::string_view FindHeader(const HttpHeaders& headers, std::string_view name) {
  for (const auto& [key, value] : headers) {
    if (EqualsIgnoringCase(key, name)) return value;
  }
  return {};
}

HttpResponse ErrorResponse(const ApiError& error) {
  HttpResponse response{.status = error.http_status, .body = ErrorBody(error)};
  if (error.http_status == 429 || error.http_status == 503) {
    response.headers.emplace_back("Retry-After", "1");
  }
  return response;
}

HttpResponse ErrorResponse(int status, std::string message) {
  return ErrorResponse(ApiError{.http_status = status, .message = std::move(message)});
}

HttpResponse ErrorResponseAt(std::string_view path, const ApiError& error) {
  constexpr std::string_view kMessages = "/v1/messages";
  HttpResponse response = ErrorResponse(error);
  const bool below = path.starts_with(kMessages) &&
                     (path.size() == kMessages.size() || path[kMessages.size()] == '/');
  if (below) response.body = MessagesErrorBody(error);
  return response;
}

std::string FormatHead(const HttpResponse& response, std::string_view request_id,
                       std::string_view framing, bool keep_alive) {
  std::string head = StrCat("HTTP/1.1 ", response.status, " ", Reason(response.status),
                            "\r\nServer: rose/" ROSE_VERSION "\r\nDate: ", HttpDate(), "\r\n");
  if (!response.content_type.empty()) head += "Content-Type: " + response.content_type + "\r\n";
  if (!request_id.empty()) head += StrCat("X-Request-Id: ", request_id, "\r\n");
  for (const auto& [name, value] : response.headers) head += name + ": " + value + "\r\n";
  if (!framing.empty()) head += StrCat(framing, "\r\n");
  head += keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return head;
}

std::string FormatChunk(std::string_view data) {
  ROSE_CHECK(!data.empty(), "an empty chunk would end the body");
  constexpr char kHex[] = "0123456789abcdef";
  std::string digits;
  for (size_t rest = data.size(); rest != 0; rest /= 16)
    digits.insert(digits.begin(), kHex[rest % 16]);
  std::string chunk;
  chunk.reserve(digits.size() + data.size() + 4);
  chunk.append(digits).append("\r\n").append(data).append("\r\n");
  return chunk;
}

std::string PercentDecode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && HexDigit(text[i + 1]) >= 0 &&
        HexDigit(text[i + 2]) >= 0) {
      out += static_cast<char>(HexDigit(text[i + 1]) * 16 + HexDigit(text[i + 2]));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string UsableRequestId(std::string_view offered) {
  const bool usable =
      !offered.empty() && offered.size() <= 128 &&
      std::all_of(offered.begin(), offered.end(), [](char c) { return c > ' ' && c < 0x7F; });
  if (usable) return std::string(offered);
  return RandomHex();
}

}  // namespace rose
