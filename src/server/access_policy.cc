#include "server/access_policy.h"

#include <algorithm>

#include "base/check.h"

namespace rose {
namespace {

// What the client shows: "Authorization: Bearer KEY" as OpenAI's clients send it, or "X-Api-Key:
// KEY" as Anthropic's do.
std::string_view OfferedKey(const HttpRequest& head) {
  std::string_view offered = FindHeader(head.headers, "Authorization");
  constexpr std::string_view kScheme = "bearer ";
  if (EqualsIgnoringCase(offered.substr(0, kScheme.size()), kScheme)) {
    offered.remove_prefix(kScheme.size());
    offered.remove_prefix(std::min(offered.find_first_not_of(' '), offered.size()));
    return offered;
  }
  return FindHeader(head.headers, "X-Api-Key");
}

bool HasKey(const AccessPolicy& policy, const HttpRequest& head) {
  const std::string_view offered = OfferedKey(head);
  bool found = false;
  // All are compared, so that the time does not tell which one came close.
  for (const std::string& key : policy.keys) found |= EqualsSecret(offered, key);
  return found;
}

bool AllowsOrigin(const AccessPolicy& policy, std::string_view origin) {
  return std::any_of(policy.origins.begin(), policy.origins.end(), [&](const std::string& allowed) {
    return allowed == "*" || allowed == origin;
  });
}

bool IsGuarded(std::string_view path) {
  return path == "/v1" || path.starts_with("/v1/");
}

// The answer to the question that a browser asks before it lets a page ask.
HttpResponse AnswerPreflight(const AccessPolicy& policy, const HttpRequest& head) {
  const std::string_view origin = FindHeader(head.headers, "Origin");
  if (!AllowsOrigin(policy, origin)) {
    return ErrorResponse(403, StrCat("Pages of '", origin,
                                     "' may not use this server; rose serve --cors-origin names "
                                     "those that may."));
  }
  HttpResponse response{.status = 204, .content_type = ""};
  response.headers.emplace_back("Access-Control-Allow-Methods", "GET, HEAD, POST, DELETE");
  const std::string_view asked = FindHeader(head.headers, "Access-Control-Request-Headers");
  if (!asked.empty()) response.headers.emplace_back("Access-Control-Allow-Headers", asked);
  response.headers.emplace_back("Access-Control-Max-Age", "600");
  return response;
}

}  // namespace

bool IsOrigin(std::string_view text) {
  if (text == "*") return true;
  const size_t scheme = text.find("://");
  if (scheme == 0 || scheme == text.npos) return false;
  const auto all = [](std::string_view part, const auto& allowed) {
    return !part.empty() && std::all_of(part.begin(), part.end(), allowed);
  };
  // Browsers write both in lower case, and a host in its ASCII form.
  const auto in_scheme = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
  };
  const auto in_host = [&](char c) { return (in_scheme(c) && c != '+') || c == '_'; };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::string_view host = text.substr(scheme + 3);
  if (!all(text.substr(0, scheme), in_scheme)) return false;
  const size_t bracket = host.starts_with('[') ? host.find(']') : 0;  // [::1]
  if (bracket == host.npos) return false;
  const size_t colon = host.find(':', bracket);
  if (colon != host.npos) {
    if (!all(host.substr(colon + 1), is_digit)) return false;
    host = host.substr(0, colon);
  }
  if (bracket == 0) return all(host, in_host);
  return host.size() == bracket + 1 && all(host.substr(1, bracket - 1), [&](char c) {
           return is_digit(c) || (c >= 'a' && c <= 'f') || c == ':' || c == '.';
         });
}

bool EqualsSecret(std::string_view offered, std::string_view secret) {
  unsigned difference = offered.size() == secret.size() && !secret.empty() ? 0 : 1;
  for (size_t i = 0; i < offered.size() && !secret.empty(); ++i) {
    difference |= static_cast<unsigned char>(offered[i] ^ secret[i % secret.size()]);
  }
  return difference == 0;
}

std::optional<HttpResponse> CheckAccess(const AccessPolicy& policy, const HttpRequest& head) {
  const bool preflight = head.method == "OPTIONS" && !FindHeader(head.headers, "Origin").empty() &&
                         !FindHeader(head.headers, "Access-Control-Request-Method").empty();
  if (preflight && !policy.origins.empty()) return AnswerPreflight(policy, head);
  if (policy.keys.empty() || !IsGuarded(head.path) || HasKey(policy, head)) return std::nullopt;
  const bool none = OfferedKey(head).empty();
  const ApiError error{.http_status = 401,
                       .message = none ? "This server needs an API key; send it as 'Authorization: "
                                         "Bearer KEY' (in OpenAI's clients: api_key)."
                                       : "The API key of this request is not one of this server's.",
                       .code = "invalid_api_key"};
  HttpResponse refusal = ErrorResponseAt(head.path, error);
  refusal.headers.emplace_back("WWW-Authenticate", "Bearer");
  return refusal;
}

HttpHeaders CorsHeaders(const AccessPolicy& policy, const HttpRequest& head) {
  HttpHeaders headers;
  if (policy.origins.empty()) return headers;
  const std::string_view origin = FindHeader(head.headers, "Origin");
  // An answer differs by origin, which shared caches must know even where there is none.
  headers.emplace_back("Vary", "Origin");
  if (origin.empty() || !AllowsOrigin(policy, origin)) return headers;
  headers.emplace_back("Access-Control-Allow-Origin", origin);
  headers.emplace_back("Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
  return headers;
}

}  // namespace rose
