// Server-sent events as bytes.
#pragma once

#include <string>
#include <vector>

#include "api/answer.h"
#include "server/http_message.h"

namespace rose {

// The head of a stream of events.
HttpResponse EventStreamHead();
// The bytes of events.
std::string JoinEvents(const std::vector<StreamEvent>& events);

}  // namespace rose
