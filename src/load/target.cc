#include "load/target.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

namespace rose {
namespace {

constexpr std::string_view kScheme = "http://";

}  // namespace

std::string LoadTarget::Request(std::string_view method, std::string_view path,
                                std::string_view body) const {
  const bool is_ipv6 = host.find(':') != host.npos;
  std::string out = StrCat(method, " ", prefix, path, " HTTP/1.1\r\nHost: ", is_ipv6 ? "[" : "",
                           host, is_ipv6 ? "]" : "", ":", port, "\r\nAccept: */*\r\n");
  if (!key.empty()) out += "Authorization: Bearer " + key + "\r\n";
  if (!body.empty()) {
    out += StrCat("Content-Type: application/json\r\nContent-Length: ", body.size(), "\r\n");
  }
  return out.append("\r\n").append(body);
}

Result<LoadTarget> ParseTarget(std::string_view url, std::string_view key) {
  if (url.starts_with("https://")) {
    return Unsupported(
        "https is not spoken by this client; measure the server behind its proxy, "
        "over http://");
  }
  if (!url.starts_with(kScheme)) {
    return InvalidArgument("'", url, "' is no URL such as http://127.0.0.1:8000");
  }
  url.remove_prefix(kScheme.size());
  LoadTarget target;
  target.key = key;
  const size_t slash = url.find('/');
  target.prefix = slash == url.npos ? "" : url.substr(slash);
  while (target.prefix.ends_with('/')) target.prefix.pop_back();
  if (target.prefix.empty()) target.prefix = "/v1";
  std::string_view authority = url.substr(0, slash);
  // A colon inside brackets belongs to an IPv6 address.
  const size_t bracket = authority.find(']');
  const size_t colon = authority.find(':', bracket == authority.npos ? 0 : bracket);
  if (colon != authority.npos) {
    const std::string_view text = authority.substr(colon + 1);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), target.port);
    if (error != std::errc() || end != text.data() + text.size() || target.port < 1 ||
        target.port > 65535) {
      return InvalidArgument("'", text, "' is no port");
    }
    authority = authority.substr(0, colon);
  }
  if (authority.starts_with('[')) authority = authority.substr(1, authority.size() - 2);
  target.host = authority;
  if (target.host.empty()) return InvalidArgument("the URL names no host");
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int failed =
      getaddrinfo(target.host.c_str(), std::to_string(target.port).c_str(), &hints, &found);
  if (failed != 0) return Unavailable("no address for '", target.host, "': ", gai_strerror(failed));
  std::memcpy(&target.address, found->ai_addr, found->ai_addrlen);
  target.address_bytes = found->ai_addrlen;
  freeaddrinfo(found);
  return target;
}

int ConnectTo(const LoadTarget& target) {
  const int fd = ::socket(target.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&target.address), target.address_bytes) == 0)
    return fd;
  const int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

}  // namespace rose
