// Many clients of a streaming endpoint in one thread, over epoll: for `rose bench streams`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace rose {

struct StreamOutcome {
  int64_t complete = 0;   // streams that ended with [DONE] and the end of their body
  int64_t letters = 0;    // right ones
  int64_t misplaced = 0;  // letters that were not the next of their stream
};

// Every stream is to say the letters LetterOf(stream, 0), LetterOf(stream, 1), ... as the content
// of chat completion chunks.
class StreamClients {
 public:
  static char LetterOf(int64_t stream, int64_t index) {
    return static_cast<char>('a' + (stream + index) % 26);
  }

  // Called for every right letter, as soon as it is read.
  using OnLetter = std::function<void(int64_t stream, int64_t index)>;
  StreamClients(int64_t streams, OnLetter on_letter);
  ~StreamClients();
  StreamClients(const StreamClients&) = delete;
  StreamClients& operator=(const StreamClients&) = delete;

  // Connects to 127.0.0.1 and sends a request for stream 0, 1, ...: kUnavailable if that fails.
  Status Start(int port, const std::function<std::string(int64_t stream)>& request);
  // Reads until all streams have ended, or none said anything for `silence_ms`.
  StreamOutcome Run(int silence_ms);

 private:
  struct Client {
    int socket = -1;
    int64_t letters = 0;
    bool done = false;  // [DONE] was read
    std::string held;   // a line that has only begun
  };

  // False once the stream is over.
  bool Read(int64_t stream);
  bool Take(int64_t stream, std::string_view bytes);
  bool TakeLine(int64_t stream, std::string_view line);
  void Close(Client& client);

  const OnLetter on_letter_;
  int epoll_ = -1;
  std::vector<Client> clients_;
  std::string scratch_;
  StreamOutcome outcome_;
};

// Connects and leaves `connections` times: a third of the clients at once, a third after half a
// request, a third in the middle of the stream that `request` asks for.
Status ConnectAndLeave(int port, int64_t connections, const std::string& request);

}  // namespace rose
