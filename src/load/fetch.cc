#include "load/fetch.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/json.h"
#include "load/reply_reader.h"

namespace rose {

Result<std::string> Fetch(const LoadTarget& target, std::string_view path) {
  const int fd = ConnectTo(target);
  if (fd < 0) {
    return Unavailable("cannot connect to ", target.host, ":", target.port, ": ",
                       std::strerror(errno), "; is the server running?");
  }
  const timeval patience{.tv_sec = 10, .tv_usec = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  const std::string request = target.Request("GET", path, "");
  ReplyReader reader;
  char bytes[16 << 10];
  ssize_t size = ::send(fd, request.data(), request.size(), MSG_NOSIGNAL);
  while (size > 0 && !reader.done()) {
    size = ::recv(fd, bytes, sizeof bytes, 0);
    if (size > 0 && !reader.Push({bytes, static_cast<size_t>(size)}, [](std::string_view) {}))
      break;
  }
  ::close(fd);
  if (size == 0) reader.Close();
  if (!reader.done()) {
    return Unavailable("the server gave no answer to GET ", target.prefix, path);
  }
  if (reader.status() != 200) {
    return Unavailable("the server answers GET ", target.prefix, path, " with HTTP ",
                       reader.status(), ": ", reader.body().substr(0, 200));
  }
  return reader.body();
}

Result<std::string> AskModel(const LoadTarget& target) {
  ROSE_ASSIGN_OR_RETURN(const std::string body, Fetch(target, "/models"));
  const auto json = ParseJson(body);
  const JsonValue* data = json.ok() ? json->Find("data") : nullptr;
  const JsonValue* id = data != nullptr && data->array() != nullptr && !data->array()->empty()
                            ? data->array()->front().Find("id")
                            : nullptr;
  if (id == nullptr || id->string() == nullptr) {
    return Unavailable("the server's list of models names none: ", body.substr(0, 200));
  }
  return *id->string();
}

}  // namespace rose
