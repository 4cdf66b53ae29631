// The server that a load is for: an address, and the head of a request to it.
#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>

#include "base/status.h"

namespace rose {

struct LoadTarget {
  std::string host;  // as in the URL
  int port = 80;
  std::string prefix;  // of paths: "/v1"
  std::string key;     // sent as "Authorization: Bearer ..."; empty = none
  sockaddr_storage address{};
  socklen_t address_bytes = 0;

  // A whole HTTP/1.1 request for `prefix` + `path`, kept alive.
  std::string Request(std::string_view method, std::string_view path, std::string_view body) const;
};

// From "http://HOST[:PORT][/PREFIX]", the prefix being "/v1" by default; looks the name up.
// kInvalidArgument for another form, kUnavailable for a name without an address.
Result<LoadTarget> ParseTarget(std::string_view url, std::string_view key);

// A blocking connection; -1 and errno if there is none.
int ConnectTo(const LoadTarget& target);

}  // namespace rose
