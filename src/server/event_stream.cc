#include "server/event_stream.h"

namespace rose {

HttpResponse EventStreamHead() {
  HttpResponse head{.content_type = "text/event-stream; charset=utf-8"};
  head.headers.emplace_back("Cache-Control", "no-cache");
  head.headers.emplace_back("X-Accel-Buffering", "no");  // reverse proxies pass each event on
  return head;
}

std::string JoinEvents(const std::vector<StreamEvent>& events) {
  std::string text;
  for (const StreamEvent& event : events) {
    if (!event.name.empty()) text.append("event: ").append(event.name).append("\n");
    text.append("data: ").append(event.data).append("\n\n");
  }
  return text;
}

}  // namespace rose
