#include "server/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

namespace rose {
namespace {

std::optional<int64_t> Number(std::string_view text, int base) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end == text.data() || value < 0) return std::nullopt;
  return value;
}

Status Stopped() {
  return Unavailable("the reader stopped");
}

}  // namespace

Result<HttpClient> HttpClient::Connect(const std::string& host, int port, int timeout_ms) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) {
    return InvalidArgument("'", host, "' is no IPv4 address");
  }
  HttpClient client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), timeout_ms);
  const int one = 1;
  setsockopt(client.socket_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (::connect(client.socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return Unavailable("cannot connect to ", host, ":", port, ": ", std::strerror(errno));
  }
  return client;
}

HttpClient::~HttpClient() {
  Close();
}

HttpClient::HttpClient(HttpClient&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      timeout_ms_(other.timeout_ms_),
      held_(std::move(other.held_)) {}

void HttpClient::Close() {
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
}

Status HttpClient::SendRaw(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return Unavailable("cannot send: ", std::strerror(errno));
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return Status();
}

Status HttpClient::SendRequest(std::string_view method, std::string_view path,
                               std::string_view body, const HttpHeaders& headers) {
  std::string head = StrCat(method, " ", path, " HTTP/1.1\r\nHost: localhost\r\n");
  for (const auto& [name, value] : headers) head += name + ": " + value + "\r\n";
  if (!body.empty() || method == "POST") head += StrCat("Content-Length: ", body.size(), "\r\n");
  return SendRaw(StrCat(head, "\r\n", body));
}

Status HttpClient::Fill() {
  pollfd waited{.fd = socket_, .events = POLLIN, .revents = 0};
  int ready = 0;
  while ((ready = ::poll(&waited, 1, timeout_ms_)) < 0 && errno == EINTR) {
  }
  if (ready == 0) return Unavailable("no answer within ", timeout_ms_, " ms");
  char bytes[16 << 10];
  const ssize_t size = ::recv(socket_, bytes, sizeof bytes, 0);
  if (size < 0) return Unavailable("cannot receive: ", std::strerror(errno));
  if (size == 0) return Unavailable("the server closed the connection");
  held_.append(bytes, static_cast<size_t>(size));
  return Status();
}

Result<std::string> HttpClient::ReadLine() {
  size_t end = 0;
  while ((end = held_.find("\r\n")) == std::string::npos) ROSE_RETURN_IF_ERROR(Fill());
  std::string line = held_.substr(0, end);
  held_.erase(0, end + 2);
  return line;
}

// Moves `size` bytes of the body out of the connection.
Status HttpClient::ReadPiece(int64_t size, HttpReply& reply, const OnData& on_data) {
  while (size > 0) {
    if (held_.empty()) ROSE_RETURN_IF_ERROR(Fill());
    const std::string piece = held_.substr(0, static_cast<size_t>(size));
    held_.erase(0, piece.size());
    size -= static_cast<int64_t>(piece.size());
    reply.body += piece;
    if (on_data && !on_data(piece)) return Stopped();
  }
  return Status();
}

Result<HttpReply> HttpClient::ReadReply(const OnData& on_data, bool head_request) {
  HttpReply reply;
  ROSE_ASSIGN_OR_RETURN(const std::string status_line, ReadLine());
  if (!status_line.starts_with("HTTP/1.1 ")) return Unavailable("no HTTP reply: ", status_line);
  reply.status = static_cast<int>(Number(status_line.substr(9, 3), 10).value_or(0));
  while (true) {
    ROSE_ASSIGN_OR_RETURN(const std::string line, ReadLine());
    if (line.empty()) break;
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) return Unavailable("no header: ", line);
    reply.headers.emplace_back(line.substr(0, colon), line.substr(colon + 2));
  }
  if (head_request || reply.status < 200) return reply;
  if (FindHeader(reply.headers, "Transfer-Encoding") == "chunked") {
    while (true) {
      ROSE_ASSIGN_OR_RETURN(const std::string line, ReadLine());
      const auto size = Number(line, 16);
      if (!size) return Unavailable("no chunk size: ", line);
      ROSE_RETURN_IF_ERROR(ReadPiece(*size, reply, on_data));
      ROSE_ASSIGN_OR_RETURN(const std::string blank, ReadLine());
      if (!blank.empty()) return Unavailable("a chunk longer than its size");
      if (*size == 0) return reply;
    }
  }
  if (const auto size = Number(FindHeader(reply.headers, "Content-Length"), 10)) {
    ROSE_RETURN_IF_ERROR(ReadPiece(*size, reply, on_data));
    return reply;
  }
  // The end of the connection ends the body.
  while (ReadPiece(held_.empty() ? 1 : static_cast<int64_t>(held_.size()), reply, on_data).ok()) {
  }
  return reply;
}

Result<HttpReply> HttpClient::Ask(std::string_view method, std::string_view path,
                                  std::string_view body, const HttpHeaders& headers) {
  ROSE_RETURN_IF_ERROR(SendRequest(method, path, body, headers));
  return ReadReply({}, method == "HEAD");
}

bool HttpClient::AtEnd() {
  return held_.empty() && Fill().message() == "the server closed the connection";
}

void SseReader::Push(std::string_view bytes, const std::function<void(std::string_view)>& on_data) {
  held_ += bytes;
  size_t start = 0;
  for (size_t end = 0; (end = held_.find("\n\n", start)) != std::string::npos; start = end + 2) {
    const std::string_view event = std::string_view(held_).substr(start, end - start);
    // Its name may stand before the data.
    const size_t line = event.starts_with("data: ") ? 0 : event.find("\ndata: ");
    if (line != event.npos) on_data(event.substr(event.find(' ', line) + 1));
  }
  held_.erase(0, start);
}

}  // namespace rose
