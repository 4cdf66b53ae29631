// The first minute with rose: asks a server one question over its own HTTP API, shows the streamed
// answer, and says how to go on.
#pragma once

#include <string>

#include "base/status.h"

namespace rose {

// Where a server listens and what it serves.
struct DemoTarget {
  std::string host;
  int port = 0;
  std::string model;
};

// "http://127.0.0.1:8000/v1"; an IPv6 address gets its brackets.
std::string BaseUrl(const std::string& host, int port);

// The question, the answer as it streams (stdout), then a curl line and a Python snippet.
Status RunDemo(const DemoTarget& target);

}  // namespace rose
