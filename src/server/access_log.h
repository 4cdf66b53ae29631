// One JSON line for each request that is over: who asked what, how it ended, tokens and times.
// Never content, neither of prompts nor of answers, and no query string.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "server/http_server.h"

namespace rose {

// The line, without its end. `unix_ms` is the time of the last byte.
std::string FormatAccessLine(const AccessRecord& record, int64_t unix_ms);

// Not thread-safe: written by the server's thread alone.
class AccessLog {
 public:
  // Appends to the file; "-" is stderr, "off" writes nothing.
  static Result<AccessLog> Open(const std::string& path);
  AccessLog(AccessLog&& other) noexcept;
  AccessLog& operator=(AccessLog&&) = delete;
  ~AccessLog();

  // False if the line was lost, as on a full disk, or in a pipe that nobody reads; when that begins
  // and when it is over, stderr has one sentence. A line that was written in part ends there, and
  // the next one is whole.
  bool Write(const AccessRecord& record);

 private:
  AccessLog(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  bool WriteAll(std::string_view bytes);
  void Say(const std::string& what) const;

  std::string path_;
  int fd_ = -1;           // -1: off
  int64_t lost_ = 0;      // lines, since the last one that was written
  bool is_torn_ = false;  // the file ends within a line
};

}  // namespace rose
