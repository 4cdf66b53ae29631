#include "bench/stream_clients.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace rose {
namespace {

// A connected socket; the first reads and writes may block.
Result<int> Connect(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return Unavailable("no socket: ", std::strerror(errno));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    const int error = errno;
    close(socket);
    return Unavailable("cannot connect to port ", port, ": ", std::strerror(error));
  }
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return socket;
}

Status SendAll(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0) return Unavailable("cannot send: ", std::strerror(errno));
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return Status();
}

}  // namespace

StreamClients::StreamClients(int64_t streams, OnLetter on_letter)
    : on_letter_(std::move(on_letter)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      clients_(static_cast<size_t>(streams)),
      scratch_(64 << 10, '\0') {
  for (Client& client : clients_) client.held.reserve(1024);
}

StreamClients::~StreamClients() {
  for (Client& client : clients_) Close(client);
  close(epoll_);
}

void StreamClients::Close(Client& client) {
  if (client.socket >= 0) close(std::exchange(client.socket, -1));
}

Status StreamClients::Start(int port, const std::function<std::string(int64_t)>& request) {
  for (size_t i = 0; i < clients_.size(); ++i) {
    ROSE_ASSIGN_OR_RETURN(clients_[i].socket, Connect(port));
    ROSE_RETURN_IF_ERROR(SendAll(clients_[i].socket, request(static_cast<int64_t>(i))));
    fcntl(clients_[i].socket, F_SETFL, O_NONBLOCK);
    epoll_event event{.events = EPOLLIN, .data = {.u64 = i}};
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, clients_[i].socket, &event) != 0) {
      return Unavailable("cannot watch a socket: ", std::strerror(errno));
    }
  }
  return Status();
}

StreamOutcome StreamClients::Run(int silence_ms) {
  std::array<epoll_event, 256> events;
  auto open = static_cast<int64_t>(clients_.size());
  while (open > 0) {
    const int ready = epoll_wait(epoll_, events.data(), events.size(), silence_ms);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) break;
    for (int i = 0; i < ready; ++i) {
      const auto stream = static_cast<int64_t>(events[static_cast<size_t>(i)].data.u64);
      if (Read(stream)) continue;
      Close(clients_[static_cast<size_t>(stream)]);
      --open;
    }
  }
  return outcome_;
}

bool StreamClients::Read(int64_t stream) {
  const ssize_t size =
      recv(clients_[static_cast<size_t>(stream)].socket, scratch_.data(), scratch_.size(), 0);
  if (size < 0) return errno == EAGAIN || errno == EINTR;
  return size > 0 && Take(stream, std::string_view(scratch_).substr(0, static_cast<size_t>(size)));
}

bool StreamClients::Take(int64_t stream, std::string_view bytes) {
  std::string& held = clients_[static_cast<size_t>(stream)].held;
  while (true) {
    const size_t end = bytes.find('\n');
    if (end == std::string_view::npos) {
      held += bytes;
      return true;
    }
    std::string_view line = bytes.substr(0, end);
    if (!held.empty()) line = held += line;
    if (!TakeLine(stream, line)) return false;
    held.clear();
    bytes.remove_prefix(end + 1);
  }
}

// Headers, sizes of chunks and empty lines are passed over.
bool StreamClients::TakeLine(int64_t stream, std::string_view line) {
  Client& client = clients_[static_cast<size_t>(stream)];
  if (line == "0\r") {  // the last chunk
    outcome_.complete += client.done ? 1 : 0;
    return false;
  }
  if (!line.starts_with("data: ")) return true;
  if (line == "data: [DONE]") {
    client.done = true;
    return true;
  }
  constexpr std::string_view kContent = R"("content":")";
  const size_t at = line.find(kContent);
  if (at == std::string_view::npos) return true;
  for (const char c : line.substr(at + kContent.size())) {
    if (c == '"') break;
    if (c == LetterOf(stream, client.letters)) {
      ++outcome_.letters;
      on_letter_(stream, client.letters);
    } else {
      ++outcome_.misplaced;
    }
    ++client.letters;
  }
  return true;
}

Status ConnectAndLeave(int port, int64_t connections, const std::string& request) {
  constexpr int64_t kAtOnce = 100;
  for (int64_t done = 0; done < connections; done += kAtOnce) {
    std::vector<int> sockets;
    for (int64_t i = done; i < std::min(done + kAtOnce, connections); ++i) {
      ROSE_ASSIGN_OR_RETURN(const int socket, Connect(port));
      sockets.push_back(socket);
      const size_t sent = i % 3 == 0 ? 0 : i % 3 == 1 ? request.size() / 2 : request.size();
      ROSE_RETURN_IF_ERROR(SendAll(socket, std::string_view(request).substr(0, sent)));
    }
    for (size_t i = 0; i < sockets.size(); ++i) {
      char first = 0;
      // Those that asked wait until their stream has begun.
      if ((done + static_cast<int64_t>(i)) % 3 == 2 && recv(sockets[i], &first, 1, 0) < 0) {
        return Unavailable("no answer: ", std::strerror(errno));
      }
      close(sockets[i]);
    }
  }
  return Status();
}

}  // namespace rose
