// Who may ask this server what: API keys, and the web pages that browsers let ask it (CORS).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http_message.h"

namespace rose {

struct AccessPolicy {
  std::vector<std::string> keys;     // any of them opens /v1; none: it is open to all
  std::vector<std::string> origins;  // such as "https://app.example"; "*" = all; none: no CORS
};

// The answer to a request that may not go on: a preflight of CORS, or one under /v1 without a key.
// Needs the head of the request only. Nothing: it may.
std::optional<HttpResponse> CheckAccess(const AccessPolicy& policy, const HttpRequest& head);

// Headers that every answer to `head` carries, so that the page that asked may read it.
HttpHeaders CorsHeaders(const AccessPolicy& policy, const HttpRequest& head);

// Whether a text is an origin as browsers send it ("https://app.example:8443", without a path), or
// "*".
bool IsOrigin(std::string_view text);

// Equal, in a time that depends on the length of `offered` alone.
bool EqualsSecret(std::string_view offered, std::string_view secret);

}  // namespace rose
