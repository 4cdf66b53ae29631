// One JSON line for each request that is over: who asked what, how it ended, tokens and times.
// Never content, neither of prompts nor of answers, and no query string.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

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
  void Write(const AccessRecord& record);

 private:
  struct Closer {
    void operator()(std::FILE* file) const {
      if (file != stderr) std::fclose(file);
    }
  };
  std::unique_ptr<std::FILE, Closer> file_;  // null: off
};

}  // namespace rose
